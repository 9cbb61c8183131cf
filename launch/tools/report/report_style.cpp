#include "launch/tools/report/report_parts.h"

namespace tessera {

// The colors of runs are those of Okabe and Ito, which people with any color vision can tell apart,
// darker on a light page and lighter on a dark one.
const std::string_view kReportStyle = R"(
:root { --ink: #1f2733; --faint: #5f6b7c; --page: #f3f5f8; --card: #fff; --line: #d9dee6;
  --grid: #e8ecf1; --mark: #d1480f; --accent: #2357b8; --shade: rgba(35, 87, 184, .14);
  --c0: #0b68b4; --c1: #d55e00; --c2: #00856a; --c3: #b0508a; --c4: #9a7400; --c5: #3f9fd8;
  --c6: #4b5563; --c7: #8a5a44; color-scheme: light dark; }
@media (prefers-color-scheme: dark) {
  :root { --ink: #e6eaf0; --faint: #9aa5b4; --page: #12161c; --card: #1b212a; --line: #333c48;
    --grid: #29313c; --mark: #ff8a50; --accent: #8ab4ff; --shade: rgba(138, 180, 255, .2);
    --c0: #58aef0; --c1: #ff8a3d; --c2: #34c9a0; --c3: #e79ac8; --c4: #f0c850; --c5: #a5d8f8;
    --c6: #c3cad4; --c7: #d0a58f; }
}
* { box-sizing: border-box; }
body { margin: 0; background: var(--page); color: var(--ink);
  font: 15px/1.5 system-ui, -apple-system, "Segoe UI", Helvetica, Arial, sans-serif; }
header, main, .tools { max-width: 1480px; margin: 0 auto; padding: 0 28px; }
header { padding-top: 24px; }
header .scroll { margin-top: 14px; }
h1 { font-size: 24px; line-height: 1.2; margin: 0 0 6px; overflow-wrap: anywhere; }
h2 { font-size: 17px; margin: 34px 0 8px; }
p { margin: 0 0 14px; overflow-wrap: anywhere; }
.faint, header p { color: var(--faint); }
.problems { margin: 0 0 14px; padding: 8px 14px; list-style: none; border-radius: 8px;
  background: var(--card); border: 1px solid var(--line); border-left: 4px solid var(--mark);
  font-size: 14px; overflow-wrap: anywhere; }
.tiles { display: grid; grid-template-columns: repeat(auto-fit, minmax(150px, 1fr)); gap: 10px;
  margin: 14px 0 16px; }
.tiles > div { background: var(--card); border: 1px solid var(--line); border-radius: 8px;
  padding: 9px 14px 10px; }
.tiles dt { font-size: 12.5px; color: var(--faint); }
.tiles dd { margin: 0; font-size: 21px; font-weight: 600; line-height: 1.3;
  font-variant-numeric: tabular-nums; }
.tiles small, td small { font-size: 12.5px; font-weight: 400; color: var(--faint);
  white-space: nowrap; }
.bar { height: 4px; margin-top: 6px; border-radius: 2px; background: var(--grid); }
.bar span { display: block; height: 100%; border-radius: 2px; background: var(--c0); }
.scroll { overflow-x: auto; background: var(--card); border: 1px solid var(--line);
  border-radius: 8px; margin: 0 0 16px; }
table { border-collapse: collapse; width: 100%; font-size: 14px;
  font-variant-numeric: tabular-nums; }
th, td { padding: 6px 14px; text-align: left; vertical-align: top;
  border-bottom: 1px solid var(--grid); }
tr:last-child > * { border-bottom: 0; }
thead th { font-size: 12.5px; font-weight: 600; color: var(--faint); white-space: nowrap; }
tbody th { font-weight: 600; white-space: nowrap; }
td.n, th.n { text-align: right; white-space: nowrap; }
td.best { font-weight: 600; }
td:first-child code { white-space: nowrap; }
td code { font: 13px/1.5 ui-monospace, SFMono-Regular, Menlo, Consolas, monospace;
  overflow-wrap: anywhere; }
.run::before, .chip i, .value i { content: ""; display: inline-block; width: 12px; height: 12px;
  margin-right: 7px; border-radius: 3px; vertical-align: -1px; background: var(--c); }
.tools { position: sticky; top: 0; z-index: 5; padding-top: 8px; padding-bottom: 8px;
  background: var(--page); display: flex; flex-wrap: wrap; gap: 8px 18px; align-items: center;
  font-size: 13.5px; }
.tools[hidden] { display: none; }
.tools label, .group { display: inline-flex; align-items: center; gap: 7px; }
.tools output { font-variant-numeric: tabular-nums; }
#smooth-value { min-width: 2.4em; }
#at { flex: 1 1 12em; min-width: 0; color: var(--faint); overflow-wrap: anywhere; }
input[type=range] { width: 110px; accent-color: var(--accent); }
input[type=checkbox] { accent-color: var(--accent); }
button { font: inherit; color: var(--ink); background: var(--card); cursor: pointer;
  border: 1px solid var(--line); border-radius: 6px; padding: 3px 10px; }
button:hover:not(:disabled) { border-color: var(--faint); }
button:disabled { opacity: .45; cursor: default; }
button[aria-pressed=true] { border-color: var(--accent); color: var(--accent); }
.group { gap: 0; }
.group button { border-radius: 0; margin-left: -1px; position: relative; }
.group button[aria-pressed=true] { z-index: 1; }
.group button:first-of-type { border-radius: 6px 0 0 6px; }
.group button:last-of-type { border-radius: 0 6px 6px 0; }
.chips { display: flex; flex-wrap: wrap; gap: 6px; flex-basis: 100%; }
.chip { max-width: 100%; overflow-wrap: anywhere; text-align: left; }
.chip[aria-pressed=true] { color: var(--ink); border-color: var(--line); }
.chip[aria-pressed=false] { color: var(--faint); text-decoration: line-through; }
.chip[aria-pressed=false] i { background: none; border: 2px solid var(--c); }
:focus-visible { outline: 2px solid var(--accent); outline-offset: 1px; }
.panels { display: grid; grid-template-columns: repeat(auto-fit, minmax(min(100%, 430px), 1fr));
  gap: 14px; margin: 6px 0 8px; }
figure { margin: 0; min-width: 0; display: flex; flex-direction: column; padding: 10px 14px 8px;
  background: var(--card); border: 1px solid var(--line); border-radius: 8px; }
figure.wide { grid-column: 1 / -1; }
figcaption { display: flex; flex-wrap: wrap; gap: 2px 16px; align-items: center;
  min-height: 29px; }
figcaption b { font-size: 15px; }
figcaption b small { font-weight: 400; font-size: 12.5px; color: var(--faint); }
figcaption button { font-size: 12.5px; padding: 1px 8px; }
.values { display: flex; flex-wrap: wrap; gap: 0 14px; margin-left: auto; font-size: 13px;
  color: var(--faint); }
.value { white-space: nowrap; }
.value i { width: 10px; height: 10px; margin-right: 5px; }
.value i.dot { border-radius: 50%; }
.value b { font-size: 13px; color: var(--ink); font-variant-numeric: tabular-nums;
  margin-left: 5px; }
[data-panel] svg { display: block; width: 100%; flex: none; margin-top: auto; cursor: crosshair;
  touch-action: pan-y; user-select: none; -webkit-user-select: none; overflow: visible; }
[data-panel] text { fill: var(--faint); font-size: 11.5px; font-variant-numeric: tabular-nums; }
[data-panel] .grid { stroke: var(--grid); fill: none; }
.base { stroke: var(--line); fill: none; }
.curve { fill: none; stroke-width: 1.75; stroke-linejoin: round; stroke-linecap: round; }
.curve.dots { stroke-width: 1.25; }
.curve.raw { stroke-width: 1; opacity: .35; }
.event { stroke: var(--faint); stroke-dasharray: 3 3; fill: none; }
.event.rollback, .event.warning, .event.failure { stroke: var(--mark); }
.event.skipped { stroke: none; fill: var(--mark); }
.cursor { stroke: var(--ink); opacity: .5; pointer-events: none; }
.point { stroke: var(--card); stroke-width: 1.5; pointer-events: none; }
.select { fill: var(--shade); stroke: var(--accent); pointer-events: none; }
.none { font-size: 13px; }
.choice { display: flex; flex-wrap: wrap; gap: 8px; align-items: center; margin: 0 0 10px;
  font-size: 13.5px; font-variant-numeric: tabular-nums; }
.choice[hidden] { display: none; }
.choice input { flex: 1 1 120px; max-width: 420px; min-width: 0; }
.samples { background: var(--card); border: 1px solid var(--line); border-radius: 8px;
  padding: 10px 14px; margin: 0 0 10px; }
.samples h3 { font-size: 14px; margin: 0 0 6px; overflow-wrap: anywhere; }
.samples h3 small { font-size: 12.5px; font-weight: 400; color: var(--faint); }
.samples dl { margin: 0; }
.samples dt, .samples dd { margin: 0; white-space: pre-wrap; overflow-wrap: anywhere;
  min-height: 1.5em; unicode-bidi: isolate; }
.samples dt { font-size: 13px; color: var(--faint); }
.samples dd { margin: 0 0 12px; padding: 2px 0 2px 12px; border-left: 3px solid var(--grid); }
.samples dd:last-child { margin-bottom: 2px; }
.attention h4 { font-size: 14px; margin: 14px 0 6px; }
.attention .defs { position: absolute; width: 0; height: 0; }
.maps { display: flex; flex-wrap: wrap; gap: 12px; align-items: flex-start; margin-top: 10px; }
.maps figure { max-width: 100%; overflow-x: auto; }
.maps figcaption { font-size: 13px; font-weight: 600; min-height: 0; }
.maps svg { display: block; flex: none; overflow: visible; }
/* A map uses elements from elsewhere, which selectors see without their ancestors. */
image { image-rendering: pixelated; }
.labels { fill: var(--ink); }
.unseen { fill: var(--faint); font-style: italic; }
.axis { fill: var(--faint); font-size: 11px; }
.number { text-anchor: middle; font-size: 11px; }
.grid { stroke: #fff; fill: none; }
.frame { stroke: var(--faint); fill: none; }
details { background: var(--card); border: 1px solid var(--line); border-radius: 8px;
  padding: 8px 14px; margin: 0 0 10px; }
summary { cursor: pointer; overflow-wrap: anywhere; }
pre { margin: 10px 0 4px; overflow-x: auto; font: 13px/1.5 ui-monospace, SFMono-Regular, Menlo,
  Consolas, monospace; }
footer { max-width: 1480px; margin: 0 auto; padding: 8px 28px 28px; font-size: 13px;
  color: var(--faint); }
@media (max-width: 700px) {
  header, main, .tools, footer { padding-left: 12px; padding-right: 12px; }
  .tools { position: static; }
  .tiles { grid-template-columns: repeat(auto-fit, minmax(130px, 1fr)); }
  figure { padding: 8px 10px; }
  .values { margin-left: 0; }
}
@media print { .tools { display: none; } figure { break-inside: avoid; } }
)";

}  // namespace tessera

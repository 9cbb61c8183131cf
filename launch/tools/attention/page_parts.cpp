#include "launch/tools/attention/page_parts.h"

namespace tessera {

const std::string_view kPageStyle = R"(
:root { --ink: #1f2733; --faint: #667085; --line: #d9dee6; --mark: #d1480f; --hidden: #e9e5dc;
  --hatch: #b3aa99; color-scheme: light; }
* { box-sizing: border-box; }
body { margin: 0; background: #f3f5f8; color: var(--ink);
  font: 15px/1.5 system-ui, -apple-system, "Segoe UI", Helvetica, Arial, sans-serif; }
header, main { max-width: 1480px; margin: 0 auto; padding: 0 28px; }
header { padding-top: 26px; }
h1 { font-size: 24px; line-height: 1.2; margin: 0 0 10px; }
h2 { font-size: 17px; margin: 34px 0 8px; }
h3 { font-size: 15px; margin: 26px 0 8px; }
h3 small { font-size: 13px; font-weight: 400; color: var(--faint); }
dl { display: grid; grid-template-columns: max-content 1fr; gap: 1px 14px; margin: 0 0 16px; }
dt { color: var(--faint); }
dd { margin: 0; overflow-wrap: anywhere; }
.legend { display: flex; flex-wrap: wrap; gap: 10px 34px; align-items: flex-start;
  font-size: 12.5px; color: var(--faint); }
.legend b { color: var(--ink); font-weight: 600; display: block; }
.scale { width: 300px; }
.scale .bar { height: 14px; border-radius: 3px; border: 1px solid var(--line); }
.scale .ticks { position: relative; height: 18px; }
.scale .ticks span { position: absolute; transform: translateX(-50%); }
.swatch { display: block; width: 64px; height: 14px; border-radius: 3px;
  border: 1px solid var(--line); background: repeating-linear-gradient(-45deg, var(--hidden) 0 3px,
  var(--hatch) 3px 4.4px); }
.text { display: flex; flex-wrap: wrap; gap: 3px; margin: 22px 0 14px; padding: 0; list-style: none; }
.text[data-name]::before { content: attr(data-name); width: 60px; font-size: 13px;
  color: var(--faint); }
.text li { background: #fff; border: 1px solid var(--line); border-radius: 4px; padding: 0 6px;
  font-size: 13px; overflow-wrap: anywhere; }
.text li.unseen { color: var(--faint); background: repeating-linear-gradient(-45deg,
  var(--hidden) 0 4px, #d9d3c6 4px 5.4px); }
.text small { color: var(--faint); font-size: 10px; margin-right: 4px; }
.heads { display: flex; flex-wrap: wrap; gap: 16px; align-items: flex-start; }
.heads > input { position: absolute; opacity: 0; pointer-events: none; }
.defs { position: absolute; width: 0; height: 0; }
.overview { display: inline-block; background: #fff; border: 1px solid var(--line);
  border-radius: 8px; padding: 10px 14px 12px; max-width: 100%; overflow-x: auto; }
.layers { flex-grow: 1; min-width: 0; }
.overview p { margin: 0 0 6px; font-size: 12.5px; color: var(--faint); }
.overview label { display: flex; align-items: center; gap: 5px; padding: 3px 6px 3px 3px;
  border-radius: 6px; cursor: pointer; width: max-content; }
.overview label:hover { background: #eef2f7; }
.overview .name { width: 62px; padding-left: 6px; font-size: 13px; }
.overview svg { display: block; width: 46px; height: 46px; border: 1px solid var(--line); }
.layer { display: none; flex-wrap: wrap; gap: 16px; align-items: flex-start; }
figure { margin: 0; background: #fff; border: 1px solid var(--line); border-radius: 8px;
  padding: 10px 12px; max-width: 100%; overflow-x: auto; }
figcaption { display: flex; justify-content: space-between; gap: 18px; font-weight: 600;
  margin-bottom: 2px; }
figcaption output { font-weight: 400; font-variant-numeric: tabular-nums; color: var(--mark); }
.map { display: block; overflow: visible; cursor: crosshair; }
.map:focus-visible { outline: 2px solid var(--mark); outline-offset: 2px; }
image { image-rendering: pixelated; }
.labels { fill: var(--ink); }
.labels .unseen { fill: #938a7a; font-style: italic; }
.axis { fill: var(--faint); font-size: 11px; }
.number { text-anchor: middle; font-size: 11px; font-variant-numeric: tabular-nums;
  pointer-events: none; }
.grid { stroke: #fff; fill: none; }
.frame { stroke: #aab3c0; fill: none; }
.cross { fill: none; stroke: var(--mark); stroke-width: 1.5; pointer-events: none; }
.cross.band { stroke-width: 1; stroke-dasharray: 3 2; opacity: 0.7; }
#tip { position: fixed; z-index: 9; pointer-events: none; max-width: 380px; padding: 6px 10px;
  background: #1f2733; color: #fff; border-radius: 6px; font-size: 13px; line-height: 1.4;
  overflow-wrap: anywhere; box-shadow: 0 4px 14px rgba(15, 23, 42, 0.25); }
#tip strong { font-variant-numeric: tabular-nums; font-size: 15px; }
#tip span { color: #c8d0dc; }
[hidden] { display: none !important; }
@media print { .layer { display: flex; } figure { break-inside: avoid; } }
)";

const std::string_view kPageScript = R"(
"use strict";
(() => {
  const report = JSON.parse(document.getElementById("attention").textContent);
  const tip = document.getElementById("tip");
  const SVG = "http://www.w3.org/2000/svg";

  const shown = (weight) => weight === 0 ? "0" : weight < 1e-4 ? weight.toExponential(3)
                                                              : weight.toPrecision(4);

  function rect(svg, name, x, y, width, height) {
    let element = svg.querySelector("." + name.replaceAll(" ", "."));
    if (!element) {
      element = document.createElementNS(SVG, "rect");
      element.setAttribute("class", name);
      svg.append(element);
    }
    for (const [key, value] of Object.entries({ x, y, width, height })) {
      element.setAttribute(key, value);
    }
  }

  function clear(section) {
    section.querySelectorAll(".cross").forEach((element) => element.remove());
    section.querySelectorAll("output").forEach((element) => { element.textContent = ""; });
    tip.hidden = true;
  }

  const geometry = (svg) => ["left", "top", "cell"].map((key) => Number(svg.dataset[key]));

  // A sequence whose attentions have names has a list of them.
  function attentionOf(svg) {
    const sequence = report.sequences[Number(svg.closest(".sequence").dataset.sequence)];
    const { attention } = svg.closest(".heads").dataset;
    return sequence.attentions ? sequence.attentions[Number(attention)] : sequence;
  }

  const sizeOf = (attention) => [attention.hidden.length, attention.hidden[0].length];

  // The same cell in every head of the layer, so that heads can be compared.
  function point(svg, t, s, x, y) {
    const section = svg.closest(".sequence");
    const attention = attentionOf(svg);
    const [rows, columns] = sizeOf(attention);
    if (!(t >= 0 && s >= 0 && t < rows && s < columns)) return clear(section);
    const isLocal = attention.heads[Number(svg.dataset.index)].local;
    const hidden = (isLocal ? attention.local_hidden : attention.hidden)[t][s] === 1;
    const text = (map) => {
      if (hidden) return "hidden";
      return shown(attention.heads[Number(map.dataset.index)].weights[t][s]);
    };
    for (const map of svg.closest(".layer").querySelectorAll(".map")) {
      const [left, top, cell] = geometry(map);
      rect(map, "cross band query", left, top + t * cell, columns * cell, cell);
      rect(map, "cross band key", left + s * cell, top, cell, rows * cell);
      rect(map, "cross cell", left + s * cell, top + t * cell, cell, cell);
      map.parentNode.querySelector("output").textContent = text(map);
    }
    const { queries, keys } = svg.closest(".heads").dataset;
    const label = (list, i) => section.querySelectorAll(".text")[Number(list)].children[i].dataset.label;
    tip.replaceChildren();
    const line = (name, content) => {
      const element = document.createElement(name);
      element.textContent = content;
      const row = document.createElement("div");
      row.append(element);
      tip.append(row);
    };
    line("strong", hidden ? "hidden by the mask" : text(svg));
    line("span", `query ${t}: ${label(queries, t)}`);
    line("span", `key ${s}: ${label(keys, s)}`);
    tip.hidden = false;
    const box = tip.getBoundingClientRect();
    tip.style.left = Math.max(4, Math.min(x + 16, innerWidth - box.width - 8)) + "px";
    tip.style.top = (y + 18 + box.height > innerHeight ? y - box.height - 12 : y + 18) + "px";
  }

  for (const svg of document.querySelectorAll(".map")) {
    let at = null;
    svg.addEventListener("pointermove", (event) => {
      const [left, top, cell] = geometry(svg);
      const box = svg.getBoundingClientRect();
      at = [Math.floor((event.clientY - box.top - top) / cell),
            Math.floor((event.clientX - box.left - left) / cell)];
      point(svg, at[0], at[1], event.clientX, event.clientY);
    });
    svg.addEventListener("pointerleave", () => clear(svg.closest(".sequence")));
    svg.addEventListener("blur", () => clear(svg.closest(".sequence")));
    svg.addEventListener("keydown", (event) => {
      const move = { ArrowUp: [-1, 0], ArrowDown: [1, 0], ArrowLeft: [0, -1], ArrowRight: [0, 1] };
      if (!move[event.key]) return;
      event.preventDefault();
      const [left, top, cell] = geometry(svg);
      const size = sizeOf(attentionOf(svg));
      const next = at === null ? [0, 0] : at.map((value, i) => value + move[event.key][i]);
      at = next.map((value, i) => Math.max(0, Math.min(size[i] - 1, value)));
      const box = svg.getBoundingClientRect();
      point(svg, at[0], at[1], box.left + left + (at[1] + 1) * cell, box.top + top + at[0] * cell);
    });
  }
})();
)";

}  // namespace tessera

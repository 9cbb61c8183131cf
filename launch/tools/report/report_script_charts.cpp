#include "launch/tools/report/report_parts.h"

namespace tessera {

const std::string_view kReportScriptCharts = R"(
  // What all panels show of the x axis.
  function fullRange() {
    let from = Infinity, to = -Infinity;
    for (const { run, x } of allCurves()) {
      if (!isShown(run)) continue;
      from = Math.min(from, x[0]);
      to = Math.max(to, x[x.length - 1]);
    }
    if (!(from <= to)) return [0, 1];
    return from < to ? [from, to] : [from - 1, to + 1];
  }
  const range = () => state.zoom || fullRange();

  function shownPart(curve, from, to) {
    return [Math.max(0, lowerBound(curve.x, from) - 1),
            Math.min(curve.x.length, lowerBound(curve.x, to) + 2)];
  }
  function yRange(panel, curves, from, to, isLog) {
    let low = Infinity, high = -Infinity;
    const add = (value) => {
      if (value === null || (isLog && value <= 0)) return;
      low = Math.min(low, value);
      high = Math.max(high, value);
    };
    for (const curve of curves) {
      for (let i = lowerBound(curve.x, from); i < curve.x.length && curve.x[i] <= to; ++i) {
        add(curve.y[i]);
        if (curve.y !== curve.raw) add(curve.raw[i]);
      }
    }
    if (!(low <= high)) return null;
    if (isLog) {
      const spread = high > low * 1.0001 ? (high / low) ** 0.04 : 1.2;
      return [low / spread, high * spread];
    }
    if (panel.zero && low >= 0) return [0, high > 0 ? high * 1.06 : 1];
    // A constant has a range, too, far above its rounding.
    const most = Math.max(Math.abs(low), Math.abs(high));
    const spread = high - low > most * 1e-4 ? (high - low) * 0.05 : most * 0.05 || 1;
    return [low - spread, high + spread];
  }

  function drawCurve(group, curve, values, name, [from, to], toX, toY, isLog) {
    const [begin, end] = shownPart(curve, from, to);
    const drawable = (i) =>
      i >= begin && i < end && values[i] !== null && (!isLog || values[i] > 0);
    let path = "", points = 0;
    for (let i = begin; i < end; ++i) {
      if (!drawable(i)) continue;
      const joins = drawable(i - 1);
      path += `${joins ? "L" : "M"}${toX(curve.x[i]).toFixed(1)} ${toY(values[i]).toFixed(1)}`;
      if (!joins && !drawable(i + 1)) path += "h0";
      if (curve.x[i] >= from && curve.x[i] <= to) ++points;
    }
    group.append(shape("path", { class: name, d: path, stroke: "currentColor",
      "data-points": points, "data-run": curve.run, "data-key": curve.series.key,
      "stroke-dasharray": curve.dash, style: `color:${curve.color}` }));
    if (!curve.series.dots || end - begin > MOST_DOTS) return;
    for (let i = begin; i < end; ++i) {
      if (!drawable(i)) continue;
      group.append(shape("circle", { class: "point", cx: toX(curve.x[i]), cy: toY(values[i]),
        r: 3.5, fill: "currentColor", style: `color:${curve.color}` }));
    }
  }

  function drawEvents(group, width, height, [from, to], toX) {
    runs.forEach((run, index) => {
      if (!isShown(index)) return;
      for (const event of run.events) {
        const x = place(index, event.step);
        if (x < from || x > to) continue;
        const at = toX(x).toFixed(1);
        group.append(shape("path", { class: `event ${event.kind}`,
          d: event.kind === "skipped" ? `M${at} ${height - 7}l4 7h-8z` : `M${at} 0V${height}` }));
      }
    });
  }

  function drawPanel(panel) {
    const { svg } = panel;
    const width = Math.max(40, svg.getBoundingClientRect().width - LEFT - RIGHT);
    const height = (panel.wide ? 300 : 190) - TOP - BOTTOM;
    svg.setAttribute("viewBox", `0 0 ${width + LEFT + RIGHT} ${height + TOP + BOTTOM}`);
    svg.setAttribute("height", height + TOP + BOTTOM);
    panel.clip.setAttribute("width", width + 8);
    panel.clip.setAttribute("height", height + 8);
    const isLog = panel.log && state.log.has(panel.id);
    const [from, to] = range();
    const curves = shownCurves(panel);
    const y = yRange(panel, curves, from, to, isLog);
    const toX = (value) => (value - from) / (to - from) * width;
    panel.toX = toX;
    panel.fromX = (pixel) => from + pixel / width * (to - from);
    panel.size = [width, height];
    panel.toY = null;
    svg.dataset.from = from;
    svg.dataset.to = to;
    panel.axes.replaceChildren();
    panel.lines.replaceChildren();
    const text = (x, at, content, anchor, name = "") => {
      const element = shape("text", { x, y: at, "text-anchor": anchor, class: name });
      element.textContent = content;
      panel.axes.append(element);
    };
    const across = ticks(from, to, width / 78, state.x === "step" ? 1 : 1e-9);
    for (const value of across.list) {
      panel.axes.append(shape("path", { class: "grid", d: `M${toX(value)} 0V${height}` }));
      text(toX(value), height + 17, state.x === "tokens" || to >= 1e6
        ? tickText(value, across.step, to, "amount") : stepText(value), "middle");
    }
    if (y === null) {
      text(width / 2, height / 2, curves.length > 0 ? "no values here" : "no run is shown",
        "middle", "none");
    } else {
      const [low, high] = y;
      const toY = isLog ? (value) => height * (1 - Math.log(value / low) / Math.log(high / low))
                        : (value) => height * (1 - (value - low) / (high - low));
      panel.toY = (value) => value === null || (isLog && value <= 0) ? null : toY(value);
      let up = ticks(low, high, height / 34, 0);
      const powers = isLog ? logTicks(low, high, height / 30) : [];
      if (powers.length > 1) up = { list: powers, step: null };
      const largest = Math.max(Math.abs(low), Math.abs(high));
      for (const value of up.list) {
        if (isLog && value <= 0) continue;
        panel.axes.append(shape("path", { class: "grid", d: `M0 ${toY(value)}H${width}` }));
        const gap = up.step === null ? 10 ** Math.floor(Math.log10(value)) : up.step;
        text(-8, toY(value) + 4,
          tickText(value, gap, up.step === null ? value : largest, panel.unit), "end");
      }
      for (const curve of curves) {
        const isSmooth = curve.y !== curve.raw;
        const draw = (values, name) =>
          drawCurve(panel.lines, curve, values, name, [from, to], toX, toY, isLog);
        if (isSmooth) draw(curve.raw, "curve raw");
        draw(curve.y, curve.series.dots ? "curve dots" : "curve");
      }
      drawEvents(panel.lines, width, height, [from, to], toX);
    }
    panel.axes.append(shape("path", { class: "base", d: `M0 ${height}H${width}` }));
  }

  // The values at the cursor or, without one, the last that are shown.
  let cursor = null;
  function eventsNear(at, gap) {
    return runs.flatMap((run, index) => !isShown(index) ? [] :
      run.events.filter((event) => Math.abs(place(index, event.step) - at) <= gap)
        .map((event) => (runs.length > 1 ? run.name + " " : "") + `step ${stepText(event.step)} ` +
          event.text));
  }
  // Where each run that is shown ends.
  function runEnds() {
    const ends = runs.map(() => -Infinity);
    for (const { run, x } of allCurves()) {
      if (isShown(run)) ends[run] = Math.max(ends[run], x[x.length - 1]);
    }
    return ends;
  }
  function showCursor() {
    const [from, to] = range(), ends = runEnds();
    for (const panel of panels) {
      const [width, height] = panel.size;
      panel.over.replaceChildren();
      if (cursor !== null) {
        const x = panel.toX(cursor);
        if (x < 0 || x > width) continue;
        panel.over.append(shape("path", { class: "cursor", d: `M${x} 0V${height}` }));
      }
      for (const curve of panel.curves) {
        curve.value.parentNode.hidden = !isShown(curve.run);
        if (!isShown(curve.run)) continue;
        if (cursor !== null && cursor > ends[curve.run] + (to - from) * 0.005) {
          curve.value.textContent = "–";  // the run had ended
          continue;
        }
        const i = cursor === null ? Math.max(0, lowerBound(curve.x, to + 1e-9 * Math.abs(to)) - 1)
                                  : nearest(curve.x, cursor);
        let content = valueText(curve.raw[i], panel.unit);
        if (curve.y !== curve.raw) content = `${valueText(curve.y[i], panel.unit)} (${content})`;
        curve.value.textContent = content;
        const y = cursor === null || panel.toY === null ? null : panel.toY(curve.y[i]);
        if (y === null || curve.x[i] < from || curve.x[i] > to) continue;
        panel.over.append(shape("circle", { class: "point", cx: panel.toX(curve.x[i]), cy: y, r: 4,
          fill: "currentColor", style: `color:${curve.color}` }));
      }
    }
    const notes = cursor === null ? [] : eventsNear(cursor, (to - from) * 6 / panels[0].size[0]);
    find("at").textContent = cursor === null ? "" : [placeText(cursor), ...notes].join(" · ");
  }

  function drawAll() {
    for (const panel of panels) drawPanel(panel);
    find("reset").disabled = state.zoom === null;
    showCursor();
  }
  function update() {
    updateCurves();
    drawAll();
    showSamples();
    save();
  }
  function zoomTo(from, to) {
    state.zoom = from === null ? null : [from, to];
    drawAll();
    save();
  }
)";

}  // namespace tessera

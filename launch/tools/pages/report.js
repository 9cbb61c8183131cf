"use strict";
(() => {
  const report = JSON.parse(document.getElementById("report").textContent);
  const { runs, panels } = report;
  const find = (id) => document.getElementById(id);
  const SVG = "http://www.w3.org/2000/svg";
  const LEFT = 54, RIGHT = 18, TOP = 8, BOTTOM = 22;  // margins of a panel
  const COLORS = 8, DASHES = ["", "7 4", "2 4", "9 3 2 3"];
  const MOST_DOTS = 400;

  function make(name, attributes, ...children) {
    const element = document.createElement(name);
    for (const [key, value] of Object.entries(attributes)) element.setAttribute(key, value);
    element.append(...children);
    return element;
  }
  function shape(name, attributes) {
    const element = document.createElementNS(SVG, name);
    for (const [key, value] of Object.entries(attributes)) element.setAttribute(key, value);
    return element;
  }

  // The reader's choices, kept in the address, so that they survive a reload.
  const state = { x: "step", smooth: 0, zoom: null, log: new Set(), off: new Set(), reload: true,
    sample: null };  // the step of the samples; null: the last one
  const hasTokens = runs.some((run) => run.series.tokens);

  function load() {
    const saved = new URLSearchParams(location.hash.slice(1));
    const list = (key) => (saved.get(key) || "").split(",").filter((item) => item !== "");
    if (saved.get("x") === "tokens" && hasTokens) state.x = "tokens";
    const smooth = Number(saved.get("smooth"));
    if (smooth > 0 && smooth < 1) state.smooth = smooth;
    const zoom = list("zoom").map(Number);
    if (zoom.length === 2 && zoom.every(Number.isFinite) && zoom[0] < zoom[1]) state.zoom = zoom;
    for (const id of list("log")) state.log.add(id);
    for (const run of list("off").map(Number)) if (run < runs.length) state.off.add(run);
    state.reload = saved.get("reload") !== "0";
    const sample = Number(saved.get("sample") || NaN);
    if (Number.isFinite(sample)) state.sample = sample;
  }
  function save() {
    const saved = new URLSearchParams();
    if (state.x !== "step") saved.set("x", state.x);
    if (state.smooth > 0) saved.set("smooth", state.smooth);
    if (state.zoom) saved.set("zoom", state.zoom.map((value) => Number(value.toPrecision(9))));
    if (state.log.size > 0) saved.set("log", [...state.log]);
    if (state.off.size > 0) saved.set("off", [...state.off]);
    if (!state.reload) saved.set("reload", "0");
    if (state.sample !== null) saved.set("sample", state.sample);
    history.replaceState(null, "", "#" + saved);
  }

  // The first index whose value is at least `value`.
  function lowerBound(list, value) {
    let low = 0, high = list.length;
    while (low < high) {
      const middle = (low + high) >> 1;
      if (list[middle] < value) low = middle + 1; else high = middle;
    }
    return low;
  }
  function nearest(list, value) {
    const next = lowerBound(list, value);
    if (next === 0) return 0;
    if (next === list.length) return next - 1;
    return value - list[next - 1] <= list[next] - value ? next - 1 : next;
  }
  // Between logged steps, tokens grow in proportion to steps.
  function tokensAt({ x, y }, step) {
    const next = lowerBound(x, step);
    if (next === x.length) return y[next - 1];
    if (next === 0) return x[0] > 0 ? y[0] * step / x[0] : y[0];
    return y[next - 1] + (y[next] - y[next - 1]) * (step - x[next - 1]) / (x[next] - x[next - 1]);
  }
  const place = (run, step) => state.x === "step" ? step : tokensAt(runs[run].series.tokens, step);
  const isShown = (run) =>
    !state.off.has(run) && (state.x === "step" || Boolean(runs[run].series.tokens));

  // Numbers as text.
  const PREFIXES = [[1e18, "E"], [1e15, "P"], [1e12, "T"], [1e9, "G"], [1e6, "M"], [1e3, "k"]];
  const trim = (text) => text.includes(".") ? text.replace(/\.?0+$/, "") : text;
  function scaleOf(largest, unit) {
    if (unit === "percent") return [0.01, " %"];
    if (unit === "seconds") {
      return largest >= 1 ? [1, " s"] : largest >= 1e-3 ? [1e-3, " ms"] : [1e-6, " µs"];
    }
    if (unit === "amount") {
      for (const [factor, prefix] of PREFIXES) if (largest >= factor) return [factor, " " + prefix];
    }
    return [1, ""];
  }
  function valueText(value, unit) {
    if (value === null) return "not finite";
    if (value === 0) return "0";
    const [factor, suffix] = scaleOf(Math.abs(value), unit);
    const scaled = value / factor, size = Math.abs(scaled);
    if (size !== 0 && (size < 1e-3 || size >= 1e6)) return scaled.toExponential(2) + suffix;
    return scaled.toPrecision(size >= 1000 ? 5 : 4) + suffix;
  }
  function tickText(value, step, largest, unit) {
    const [factor, suffix] = scaleOf(largest, unit);
    if (value === 0) return "0";
    const scaled = value / factor, gap = step / factor;
    if (largest / factor < 2e-3 || largest / factor >= 1e6) {
      const [digits, power] = scaled.toExponential(2).split("e");
      return `${trim(digits)}e${Number(power)}${suffix}`;
    }
    const digits = Math.min(8, Math.max(0, -Math.floor(Math.log10(gap) + 1e-9)));
    return scaled.toFixed(digits) + suffix;
  }
  const stepText = (value) => Math.round(value).toLocaleString("en");
  function placeText(value) {
    return state.x === "step" ? "step " + stepText(value) : valueText(value, "amount") + " tokens";
  }

  // About `count` round numbers within [from, to].
  function ticks(from, to, count, least) {
    const rough = Math.max((to - from) / Math.max(1, count), least);
    const power = 10 ** Math.floor(Math.log10(rough));
    const step = [1, 2, 5, 10].find((factor) => factor * power >= rough * 0.999) * power;
    const first = Math.ceil(from / step - 1e-9), list = [];
    for (let i = 0; i <= 30 && (first + i) * step <= to + step * 1e-9; ++i) {
      list.push((first + i) * step);
    }
    return { list, step };
  }
  function logTicks(from, to, count) {
    const decades = Math.log10(to / from), list = [];
    const factors = decades < 1.3 ? [1, 2, 3, 5, 7] : decades < 3 ? [1, 2, 5] : [1];
    const stride = Math.max(1, Math.ceil(decades / Math.max(1, count)));
    const first = Math.floor(Math.log10(from)), last = Math.log10(to);
    for (let e = first; e <= last && list.length < 60; e += stride) {
      for (const factor of factors) {
        const value = factor * 10 ** e;
        if (value >= from * 0.999 && value <= to * 1.001) list.push(value);
      }
    }
    return list;
  }

  // The curves of each panel: a series of a run.
  for (const panel of panels) {
    panel.curves = [];
    runs.forEach((run, index) => panel.series.forEach((series, order) => {
      const data = run.series[series.key];
      if (!data) return;
      const alone = runs.length === 1;
      const color = (alone ? order : index) % COLORS;
      const dash = alone ? 0 : Math.floor(index / COLORS) + (series.dots ? 0 : order);
      panel.curves.push({ run: index, series, steps: data.x, raw: data.y, x: data.x, y: data.y,
        color: `var(--c${color})`, dash: DASHES[dash % DASHES.length] });
    }));
  }
  const allCurves = () => panels.flatMap((panel) => panel.curves);
  const shownCurves = (panel) => panel.curves.filter((curve) => isShown(curve.run));

  function smoothed(values, weight) {
    let sum = 0, count = 0;
    return values.map((value) => {
      if (value === null) return null;
      sum = sum * weight + value * (1 - weight);
      return sum / (1 - weight ** ++count);  // without the bias towards the zero it starts from
    });
  }
  function updateCurves() {
    for (const panel of panels) {
      for (const curve of panel.curves) {
        const smooths = state.smooth > 0 && panel.smooth && !curve.series.dots;
        curve.y = smooths ? smoothed(curve.raw, state.smooth) : curve.raw;
        if (isShown(curve.run)) curve.x = curve.steps.map((step) => place(curve.run, step));
      }
    }
  }
  // The range of the x axis in all panels.
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
  // The last step of each run that is shown.
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
  // Pointer and keys.
  let drag = null;
  const pixelOf = (panel, event) => {
    const box = panel.svg.getBoundingClientRect();
    return Math.min(panel.size[0], Math.max(0, event.clientX - box.left - LEFT));
  };
  // The nearest logged place, unless it is not shown.
  function snapped(at) {
    const [from, to] = range();
    const { x } = shownCurves(panels[0])[0] || { x: [] };
    const near = x.length > 0 ? x[nearest(x, at)] : at;
    return near >= from && near <= to ? near : at;
  }
  function showSelection(a, b) {
    for (const panel of panels) {
      const left = panel.toX(Math.min(a, b)), right = panel.toX(Math.max(a, b));
      panel.over.append(shape("rect", { class: "select", x: left, y: 0, width: right - left,
        height: panel.size[1] }));
    }
  }
  function listen(panel) {
    const { svg } = panel;
    svg.addEventListener("pointerdown", (event) => {
      if (event.button !== 0) return;
      svg.setPointerCapture(event.pointerId);
      drag = pixelOf(panel, event);
    });
    svg.addEventListener("pointermove", (event) => {
      const pixel = pixelOf(panel, event);
      cursor = snapped(panel.fromX(pixel));
      showCursor();
      if (drag !== null) showSelection(panel.fromX(drag), panel.fromX(pixel));
    });
    svg.addEventListener("pointerup", (event) => {
      if (drag === null) return;
      const pixel = pixelOf(panel, event), start = drag;
      drag = null;
      cursor = snapped(panel.fromX(pixel));
      if (Math.abs(pixel - start) < 6) return showCursor();
      const ends = [panel.fromX(Math.min(pixel, start)), panel.fromX(Math.max(pixel, start))];
      if (ends[1] - ends[0] > 1e-9 * Math.abs(ends[1])) zoomTo(...ends);
    });
    svg.addEventListener("pointercancel", () => { drag = null; cursor = null; showCursor(); });
    svg.addEventListener("pointerleave", (event) => {
      if (drag !== null || event.pointerType === "touch") return;
      cursor = null;
      showCursor();
    });
    svg.addEventListener("dblclick", () => zoomTo(null));
    svg.addEventListener("keydown", (event) => {
      const [from, to] = range(), full = fullRange();
      const curve = shownCurves(panel)[0];
      const shift = { ArrowLeft: -1, ArrowRight: 1 }[event.key];
      const factor = { "+": 0.5, "=": 0.5, "-": 2 }[event.key];
      if (event.key === "Escape" || event.key === "0") {
        zoomTo(null);
      } else if (shift && curve) {
        const i = cursor === null ? curve.x.length : nearest(curve.x, cursor) + shift;
        cursor = curve.x[Math.max(0, Math.min(curve.x.length - 1, i))];
        showCursor();
      } else if (factor) {
        const middle = cursor === null ? (from + to) / 2 : cursor;
        const ends = [middle - (middle - from) * factor, middle + (to - middle) * factor];
        if (ends[0] <= full[0] && ends[1] >= full[1]) zoomTo(null);
        else if (ends[1] - ends[0] > 1e-9 * Math.abs(ends[1])) zoomTo(...ends);
      } else {
        return;
      }
      event.preventDefault();
    });
  }

  function build(panel) {
    const caption = make("figcaption", {}, make("b", {}, panel.title,
      ...(panel.note ? [" ", make("small", {}, panel.note)] : [])));
    if (panel.log) {
      const button = make("button", { type: "button", class: "log",
        "aria-pressed": state.log.has(panel.id),
        "aria-label": `${panel.title}: logarithmic scale` }, "log");
      button.addEventListener("click", () => {
        if (!state.log.delete(panel.id)) state.log.add(panel.id);
        button.setAttribute("aria-pressed", state.log.has(panel.id));
        update();
      });
      caption.append(button);
    }
    const values = make("div", { class: "values" });
    for (const curve of panel.curves) {
      curve.value = make("b", {});
      const label = runs.length === 1 || panel.series.length > 1 ? curve.series.label : "";
      const name = runs.length > 1 ? `${runs[curve.run].name}: ${curve.series.label}`
                                   : curve.series.label;
      values.append(make("span", { class: "value", title: name, style: `--c:${curve.color}` },
        make("i", curve.series.dots ? { class: "dot" } : {}), label, curve.value));
    }
    caption.append(values);
    panel.wide = panel === panels[0];
    panel.svg = shape("svg", { role: "img", tabindex: 0, "aria-label": `${panel.title}. ` +
      "Arrow keys move the cursor, plus and minus zoom, Escape shows all" });
    const id = `clip-${panel.id}`;
    const clip = shape("clipPath", { id });
    panel.clip = shape("rect", { x: -4, y: -4 });
    clip.append(panel.clip);
    const plot = shape("g", { transform: `translate(${LEFT},${TOP})` });
    panel.axes = shape("g", {});
    panel.lines = shape("g", { class: "lines", "clip-path": `url(#${id})` });
    panel.over = shape("g", {});
    plot.append(panel.axes, panel.lines, panel.over);
    panel.svg.append(clip, plot);
    find("panels").append(make("figure", { "data-panel": panel.id,
      class: panel.wide ? "wide" : "" }, caption, panel.svg));
    listen(panel);
  }

  function buildTools() {
    const smooth = find("smooth");
    const showSmooth = () => { find("smooth-value").textContent = state.smooth.toFixed(2); };
    smooth.value = state.smooth;
    showSmooth();
    smooth.addEventListener("input", () => {
      state.smooth = Number(smooth.value);
      showSmooth();
      update();
    });
    const axes = document.querySelectorAll("[data-x]");
    const showAxis = () => axes.forEach((button) =>
      button.setAttribute("aria-pressed", button.dataset.x === state.x));
    axes.forEach((button) => {
      button.disabled = button.dataset.x === "tokens" && !hasTokens;
      button.addEventListener("click", () => {
        state.x = button.dataset.x;
        state.zoom = cursor = null;
        showAxis();
        update();
      });
    });
    showAxis();
    find("reset").addEventListener("click", () => zoomTo(null));
    if (runs.length > 1) {
      const chips = make("div", { class: "chips", role: "group", "aria-label": "runs" });
      runs.forEach((run, index) => {
        const chip = make("button", { type: "button", class: "chip", "data-run": index,
          style: `--c:var(--c${index % COLORS})`, "aria-pressed": !state.off.has(index) },
          make("i", {}), run.name);
        chip.addEventListener("click", () => {
          if (!state.off.delete(index)) state.off.add(index);
          chip.setAttribute("aria-pressed", !state.off.has(index));
          update();
        });
        chips.append(chip);
      });
      find("tools").append(chips);
    }
    find("tools").hidden = false;
  }

  // The models' samples at a step or, if there are none, before it.
  const sampleSteps = [...new Set(runs.flatMap((run) => run.samples.map(({ step }) => step)))]
    .sort((a, b) => a - b);
  const sampleIndex = () => state.sample === null ? sampleSteps.length - 1
                                                  : nearest(sampleSteps, state.sample);
  function showSamples() {
    if (sampleSteps.length === 0) return;
    const index = sampleIndex(), at = sampleSteps[index];
    find("sample-step").value = index;
    find("sample-before").disabled = index === 0;
    find("sample-after").disabled = index === sampleSteps.length - 1;
    find("sample-at").textContent = "step " + stepText(at);
    for (const box of document.querySelectorAll(".samples")) {
      const run = Number(box.dataset.run);
      box.hidden = state.off.has(run);
      const found = runs[run].samples.filter(({ step }) => step <= at).pop();
      box.querySelector("small").textContent = found ? "step " + stepText(found.step) : "none yet";
      box.querySelector("dl").replaceChildren(...(found ? found.texts : []).flatMap(
        ([prompt, text]) => [make("dt", {}, prompt), make("dd", {}, text)]));
    }
  }
  function chooseSample(index) {
    state.sample = index >= sampleSteps.length - 1 ? null : sampleSteps[Math.max(0, index)];
    showSamples();
    save();
  }
  function buildSamples() {
    if (sampleSteps.length < 2) return;
    find("sample-step").max = sampleSteps.length - 1;
    find("sample-step").addEventListener("input",
      (event) => chooseSample(Number(event.target.value)));
    find("sample-before").addEventListener("click", () => chooseSample(sampleIndex() - 1));
    find("sample-after").addEventListener("click", () => chooseSample(sampleIndex() + 1));
    find("sample-choice").hidden = false;
  }

  function reloadWhileAlive() {
    const box = find("reload");
    if (!report.reload_seconds || !box) return;
    box.checked = state.reload;
    box.addEventListener("change", () => { state.reload = box.checked; save(); });
    setInterval(() => { if (state.reload && drag === null) location.reload(); },
      report.reload_seconds * 1000);
  }

  if (panels.length === 0) return;
  load();
  buildTools();
  panels.forEach(build);
  updateCurves();
  drawAll();
  buildSamples();
  showSamples();
  reloadWhileAlive();
  let width = 0;
  new ResizeObserver(() => {
    if (find("panels").clientWidth === width) return;
    width = find("panels").clientWidth;
    requestAnimationFrame(drawAll);
  }).observe(find("panels"));
})();

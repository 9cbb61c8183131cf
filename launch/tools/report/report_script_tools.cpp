#include "launch/tools/report/report_parts.h"

namespace tessera {

const std::string_view kReportScriptTools = R"(
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

  // What the models wrote at a step or, if they wrote nothing then, before it.
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
)";

}  // namespace tessera

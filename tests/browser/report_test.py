#!/usr/bin/env python3
"""Opens the page of `tessera report` in headless Chromium: tests/browser/report_test.py build/cpu/tessera

Checks that no script fails, that panels have all points, that zoom, toggles, smoothing and the cursor change what is
drawn, that samples of any step and attention maps are shown, that the page keeps its state over a reload, that it fits a phone's width, and that dark mode has other colors.
Exits with 77 if Chromium is not installed. --screenshots FOLDER keeps pictures.
"""

import argparse
import json
import math
import pathlib
import signal
import subprocess
import sys
import tempfile
import time

from browser import Browser, find_browser

STEPS, INTERVAL = 2000, 10
LINES = STEPS // INTERVAL
LEFT, RIGHT = 54, 18  # margins of a panel, as in the page's script
CONFIG = """run:
  dir: "{name}"
model:
  kind: gpt2
  num_layers: 4
train:
  steps: {steps}
optimizer:
  lr: {lr}
"""


def step_line(step, lr):
    noise = math.sin(step * 12.9898) * 0.1
    return json.dumps({
        "step": step, "loss": 1 + 4 * math.exp(-step * lr) + noise, "lr": lr * (1 - step / STEPS),
        "grad_norm": 0.5 + 20 * math.exp(-step / 100) + abs(noise), "tokens": step * 512,
        "tokens_per_second": 15000 + 1000 * noise, "model_flops_per_second": 7.5e10, "data_wait_seconds": 0.001,
    }) + "\n"


def write_run(folder, lr, last=STEPS):
    folder.mkdir()
    (folder / "config.yaml").write_text(CONFIG.format(name=folder, steps=STEPS, lr=lr))
    with open(folder / "metrics.jsonl", "w") as file:
        for step in range(INTERVAL, last + 1, INTERVAL):
            file.write(step_line(step, lr))
            if step % 500 == 0:
                file.write(json.dumps({"step": step, "eval_loss": 1.2 + 4 * math.exp(-step * lr),
                                       "eval_token_accuracy": step / STEPS / 2}) + "\n")
        file.write('{"step":1000,"bad_step":"spike","grad_norm":99.0,"median":1.0,"skipped_steps":1,"samples":[1]}\n')


def write_journal(folder):
    """Of a run that was started again from step 500."""
    with open(folder / "supervise.jsonl", "w") as file:
        for event in ({"event": "start", "step": 0, "command": ["mpirun", "-np", "4"]},
                      {"event": "end", "step": 500, "what": "rank 2 died by signal 9", "seconds": 61.5},
                      {"event": "start", "step": 500, "command": ["mpirun", "-np", "4"]}):
            file.write(json.dumps({"time": "2026-11-25T17:05:00Z", **event}) + "\n")


def write_samples(folder):
    """A long text among them, and lines, markup and an empty prompt."""
    with open(folder / "samples.jsonl", "w") as file:
        for step in range(500, STEPS + 1, 500):
            for prompt, text in (("Once", f" upon step {step}\n  <b>{'x' * 400}</b>"), ("", f"text of {step}")):
                file.write(json.dumps({"step": step, "prompt": prompt, "text": text}) + "\n")


def write_attention(folder, tokens=32, heads=3):
    """Each token attends to all that it sees alike."""
    rows = range(tokens)
    weights = [[1 / (query + 1) if key <= query else 0 for key in rows] for query in rows]
    (folder / "attention.json").write_text(json.dumps({
        "step": 1500, "checkpoint": "", "model": "a GPT", "mask": "causal", "sequences": [{
            "ids": list(rows), "tokens": [f"<i>token{i}" for i in rows],
            "hidden": [[int(key > query) for key in rows] for query in rows],
            "heads": [{"layer": 0, "head": head, "weights": weights} for head in range(heads)]}]}))


def points(browser, raw=False):
    """What each panel draws, or what is faint below smoothed curves: {"loss": {"0 loss": 200}}."""
    return browser.evaluate(
        "Object.fromEntries([...document.querySelectorAll('[data-panel]')].map((panel) => [panel.dataset.panel, "
        "Object.fromEntries([...panel.querySelectorAll('path.curve')].filter((path) => "
        f"path.classList.contains('raw') === {json.dumps(raw)}).map((path) => "
        "[`${path.dataset.run} ${path.dataset.key}`, Number(path.dataset.points)]))]))")


def ranges(browser):
    return browser.evaluate("[...document.querySelectorAll('[data-panel] svg')].map((svg) => "
                            "[Number(svg.dataset.from), Number(svg.dataset.to)])")


def text(browser, selector):
    return browser.evaluate(f"document.querySelector({json.dumps(selector)}).textContent")


def plot(browser, panel):
    """The box of a panel's picture on the screen."""
    return browser.evaluate(
        f"((svg) => (svg.scrollIntoView({{block: 'center'}}), ((box) => [box.x, box.y, box.width, box.height])"
        f"(svg.getBoundingClientRect())))(document.querySelector('[data-panel={panel}] svg'))")


def drag(browser, panel, begin, end):
    x, y, width, height = plot(browser, panel)
    at = lambda share: x + LEFT + share * (width - LEFT - RIGHT)
    browser.mouse("mouseMoved", at(begin), y + height / 2)
    browser.mouse("mousePressed", at(begin), y + height / 2, button="left", buttons=1, clickCount=1)
    for part in (0.5, 1.0):
        browser.mouse("mouseMoved", at(begin + part * (end - begin)), y + height / 2, button="left", buttons=1)
    browser.mouse("mouseReleased", at(end), y + height / 2, button="left", clickCount=1)


def check_charts(browser):
    drawn = points(browser)
    assert list(drawn) == ["loss", "accuracy", "lr", "grad_norm", "tokens_per_second", "flops", "data_wait"], drawn
    assert drawn["loss"] == {"0 loss": LINES, "0 eval_loss": 4, "1 loss": LINES, "1 eval_loss": 4}, drawn["loss"]
    assert drawn["lr"] == {"0 lr": LINES, "1 lr": LINES}, drawn["lr"]
    assert browser.evaluate("document.querySelectorAll('[data-panel=loss] .event.skipped').length") == 2
    assert browser.evaluate("document.querySelectorAll('[data-panel] .event.restart').length") == len(drawn)
    # Without a cursor, the last values: of the learning rates, 0.
    assert text(browser, "[data-panel=lr] .values") == "00", text(browser, "[data-panel=lr] .values")
    assert all(begin == INTERVAL and end == STEPS for begin, end in ranges(browser)), ranges(browser)


def check_zoom(browser):
    assert browser.evaluate("document.querySelector('#reset').disabled")
    drag(browser, "loss", 0.25, 0.5)
    zoomed = ranges(browser)
    assert len({tuple(each) for each in zoomed}) == 1, zoomed
    begin, end = zoomed[0]
    assert abs(begin - 507.5) < 8 and abs(end - 1005) < 8, zoomed
    drawn = points(browser)
    assert 48 <= drawn["loss"]["0 loss"] <= 51 and drawn["grad_norm"]["1 grad_norm"] <= 51, drawn
    browser.reload()
    again = ranges(browser)[0]
    assert abs(again[0] - begin) < 1e-3 and abs(again[1] - end) < 1e-3, again
    browser.click("#reset")
    assert ranges(browser)[0] == [INTERVAL, STEPS], ranges(browser)
    drag(browser, "grad_norm", 0.9, 0.8)  # backwards, in another panel
    assert ranges(browser)[0][0] > 1500
    browser.evaluate("document.querySelector('[data-panel=lr] svg').focus()")
    browser.key("Escape")
    assert ranges(browser)[0] == [INTERVAL, STEPS], ranges(browser)


def check_toggles(browser):
    path = "document.querySelector('[data-panel=loss] path.curve').getAttribute('d')"
    linear = browser.evaluate(path)
    browser.click("[data-panel=loss] .log")
    assert browser.evaluate(path) != linear
    assert browser.evaluate("document.querySelector('[data-panel=loss] .log').getAttribute('aria-pressed')") == "true"
    browser.click("[data-panel=loss] .log")
    assert browser.evaluate(path) == linear

    browser.click(".chip[data-run='1']")
    assert points(browser)["loss"] == {"0 loss": LINES, "0 eval_loss": 4}, points(browser)
    browser.reload()
    assert "1 loss" not in points(browser)["loss"], "a hidden run is hidden after a reload"
    browser.click(".chip[data-run='1']")
    assert "1 loss" in points(browser)["loss"]

    assert points(browser, raw=True)["loss"] == {}
    browser.evaluate("((slider) => { slider.value = 0.9; slider.dispatchEvent(new Event('input')); })"
                     "(document.querySelector('#smooth'))")
    assert points(browser, raw=True)["loss"] == {"0 loss": LINES, "1 loss": LINES}
    assert points(browser, raw=True)["lr"] == {}, "the learning rate is not smoothed"
    assert browser.evaluate(path) == linear, "the faint curve is the one that was not smoothed"
    browser.evaluate("((slider) => { slider.value = 0; slider.dispatchEvent(new Event('input')); })"
                     "(document.querySelector('#smooth'))")

    browser.click("[data-x=tokens]")
    assert ranges(browser)[0] == [INTERVAL * 512, STEPS * 512], ranges(browser)
    browser.click("[data-x=step]")
    assert ranges(browser)[0] == [INTERVAL, STEPS]


def check_cursor(browser):
    x, y, width, height = plot(browser, "lr")
    browser.mouse("mouseMoved", x + LEFT + (1000 - INTERVAL) / (STEPS - INTERVAL) * (width - LEFT - RIGHT), y + height / 2)
    cursors = browser.evaluate("document.querySelectorAll('.cursor').length")
    assert cursors == len(points(browser)), cursors
    where = text(browser, "#at")
    assert where.startswith("step 1,000 · "), where
    assert "changed no weight: a spike" in where, where
    assert text(browser, "[data-panel=lr] .values") == "5.00e-40.001500", text(browser, "[data-panel=lr] .values")
    browser.mouse("mouseMoved", x + LEFT + (500 - INTERVAL) / (STEPS - INTERVAL) * (width - LEFT - RIGHT), y + 50)
    where = text(browser, "#at")
    assert where == "step 500 · high step 500 started again from step 500: rank 2 died by signal 9", where
    browser.mouse("mouseMoved", 2, 2)
    assert browser.evaluate("document.querySelectorAll('.cursor').length") == 0
    browser.evaluate("document.querySelector('[data-panel=loss] svg').focus()")
    browser.key("ArrowLeft")
    assert "step 2,000" in text(browser, "#at"), text(browser, "#at")
    browser.key("ArrowLeft")
    assert "step 1,990" in text(browser, "#at"), text(browser, "#at")


def samples(browser):
    """What the page shows of the samples: the step at the slider, and those of each run."""
    return browser.evaluate("[document.querySelector('#sample-at').textContent, ...[...document.querySelectorAll("
                            "'.samples')].map((box) => box.hidden ? null : box.querySelector('small').textContent + "
                            "[...box.querySelectorAll('dd')].map((text) => ' | ' + text.textContent).join(''))]")


def check_samples(browser):
    texts = lambda step: f"step {step:,} |  upon step {step}\n  <b>{'x' * 400}</b> | text of {step}"
    assert samples(browser) == ["step 2,000", texts(2000)], samples(browser)
    assert browser.evaluate("document.querySelector('#sample-after').disabled")
    browser.click("#sample-before")
    assert samples(browser) == ["step 1,500", texts(1500)], samples(browser)
    browser.evaluate("((slider) => { slider.value = 0; slider.dispatchEvent(new Event('input')); })"
                     "(document.querySelector('#sample-step'))")
    assert samples(browser) == ["step 500", texts(500)], samples(browser)
    assert browser.evaluate("document.querySelector('#sample-before').disabled")
    browser.reload()
    assert samples(browser) == ["step 500", texts(500)], "the step outlives a reload"
    browser.click(".chip[data-run='0']")
    assert samples(browser) == ["step 500", None], samples(browser)
    browser.click(".chip[data-run='0']")
    for _ in range(3):
        browser.click("#sample-after")
    assert samples(browser)[0] == "step 2,000", samples(browser)
    assert "sample" not in browser.evaluate("location.hash"), "the newest samples are shown after a reload"


def check_attention(browser):
    assert text(browser, "#attention summary") == "low: step 1,500", text(browser, "#attention summary")
    browser.evaluate("document.querySelector('#attention details').open = true")
    boxes = browser.evaluate("[...document.querySelectorAll('#attention .map')].map((map) => "
                             "[map, map.querySelector('use')].map((part) => part.getBoundingClientRect().height))")
    # A map has a cell of 15 pixels for each of 32 tokens, below their labels.
    assert len(boxes) == 3 and all(500 < whole < 700 and round(cells) == 480 for whole, cells in boxes), boxes
    fill = "getComputedStyle(document.querySelector('#attention .labels')).fill"
    light = browser.evaluate(fill)
    browser.set_dark(True)
    assert browser.evaluate(fill) != light, light
    browser.set_dark(False)


def check_looks(browser):
    color = "getComputedStyle(document.body).backgroundColor"
    stroke = "getComputedStyle(document.querySelector('path.curve')).stroke"
    card = "getComputedStyle(document.querySelector('.samples')).backgroundColor"
    light = [browser.evaluate(each) for each in (color, stroke, card)]
    browser.set_dark(True)
    dark = [browser.evaluate(each) for each in (color, stroke, card)]
    browser.set_dark(False)
    assert all(a != b for a, b in zip(light, dark)), (light, dark)
    for width in (360, 800):
        browser.resize(width, 740, mobile=width < 600)
        wide = browser.evaluate("[document.documentElement.scrollWidth, innerWidth]")
        assert wide == [width, width], wide
        boxes = browser.evaluate("[...document.querySelectorAll('[data-panel] svg')].map((svg) => svg.clientWidth)")
        assert all(200 < box < width for box in boxes), boxes
    browser.resize(1280, 900)


def check_without_script(browser, page):
    browser.call("Emulation.setScriptExecutionDisabled", value=True)
    browser.open(page)
    shown = browser.call("Runtime.evaluate", returnByValue=True, expression=(
        "[document.querySelectorAll('table').length, document.querySelectorAll('[data-panel]').length, "
        "document.querySelector('#tools').hidden]"))
    assert shown["result"]["value"] == [4, 0, True], shown
    browser.call("Emulation.setScriptExecutionDisabled", value=False)


def has_step(browser, step):
    try:
        return step in text(browser, ".tiles")
    except RuntimeError:  # during a reload
        return False


def check_reload(browser, tessera, folder):
    run = folder / "alive"
    write_run(run, 0.004, last=1000)
    watcher = subprocess.Popen([tessera, "report", str(run), "--watch", "1"], stdout=subprocess.DEVNULL)
    try:
        end = time.monotonic() + 30
        while not (run / "report.html").exists() and time.monotonic() < end:
            time.sleep(0.05)
        browser.open(str(run / "report.html"))
        drag(browser, "loss", 0.5, 1.0)
        begin = ranges(browser)[0]
        with open(run / "metrics.jsonl", "a") as file:
            file.write(step_line(1200, 0.004))
        while not has_step(browser, "1,200"):
            assert time.monotonic() < end, "the page does not reload itself"
            time.sleep(0.2)
        assert all(abs(a - b) < 1e-3 for a, b in zip(ranges(browser)[0], begin)), "the zoom outlives a reload"
    finally:
        watcher.send_signal(signal.SIGTERM)
        code = watcher.wait(30)
    assert code == 0, code


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("tessera")
    parser.add_argument("--screenshots", type=pathlib.Path)
    options = parser.parse_args()
    program = find_browser()
    if program is None:
        print("skipped: Chromium is not installed")
        return 77
    with tempfile.TemporaryDirectory() as name, Browser(program) as browser:
        folder = pathlib.Path(name)
        write_run(folder / "low", 0.001)
        write_run(folder / "high", 0.003)
        write_journal(folder / "high")
        write_samples(folder / "low")
        write_attention(folder / "low")
        page = str(folder / "page.html")
        subprocess.run([options.tessera, "report", str(folder / "low"), str(folder / "high"), "--output", page],
                       check=True, stdout=subprocess.DEVNULL)
        browser.open(page)
        for check in (check_charts, check_zoom, check_toggles, check_cursor, check_samples, check_attention, check_looks):
            check(browser)
            print(f"{check.__name__}: passed")
        if options.screenshots:
            options.screenshots.mkdir(parents=True, exist_ok=True)
            for dark in (False, True):
                browser.set_dark(dark)
                browser.screenshot(options.screenshots / f"{'dark' if dark else 'light'}.png", whole=True)
            browser.resize(360, 740, mobile=True)
            browser.screenshot(options.screenshots / "phone.png", whole=True)
            browser.resize(1280, 900)
            browser.set_dark(False)
        check_without_script(browser, page)
        check_reload(browser, options.tessera, folder)
        assert not browser.errors, browser.errors
    print("no script error")
    return 0


if __name__ == "__main__":
    sys.exit(main())

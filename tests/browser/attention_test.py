#!/usr/bin/env python3
"""Opens the page of `tessera attention` for an image in headless Chromium: tests/browser/attention_test.py
build/cpu/tessera

Checks that no script fails, that a chosen patch shows the weights for it, that maps can have scales of their own, and
that dark mode has other colors. Exits with 77 if Chromium is not installed. --screenshots FOLDER keeps pictures.
"""

import argparse
import pathlib
import random
import struct
import subprocess
import sys
import tempfile
import zlib

from browser import Browser, find_browser

SIZE, PATCHES, IMAGES = 12, 3, 40
PEAK = """(async (selector) => {
  const image = new Image();
  image.src = document.querySelector(selector).getAttribute("href");
  await image.decode();
  const context = Object.assign(document.createElement("canvas"), { width: image.width, height: image.height }).getContext("2d");
  context.drawImage(image, 0, 0);
  const { data } = context.getImageData(0, 0, image.width, image.height);
  const light = [...Array(data.length / 4).keys()].map((i) => data[4 * i] + data[4 * i + 1] + data[4 * i + 2]);
  return light.indexOf(Math.min(...light));
})"""


def write_images(folder):
    pixels = random.Random(1)
    rows = [bytes(pixels.randrange(256) for _ in range(SIZE * SIZE)) for _ in range(IMAGES)]
    (folder / "images-idx3-ubyte").write_bytes(struct.pack(">4B3I", 0, 0, 8, 3, IMAGES, SIZE, SIZE) + b"".join(rows))
    (folder / "labels-idx1-ubyte").write_bytes(struct.pack(">4BI", 0, 0, 8, 1, IMAGES) + bytes(i % 3 for i in range(IMAGES)))
    lines = b"".join(b"\0" + rows[0][i:i + SIZE] for i in range(0, SIZE * SIZE, SIZE))
    chunks = [(b"IHDR", struct.pack(">2I5B", SIZE, SIZE, 8, 0, 0, 0, 0)), (b"IDAT", zlib.compress(lines)), (b"IEND", b"")]
    (folder / "image.png").write_bytes(b"\x89PNG\r\n\x1a\n" + b"".join(
        struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data)) for kind, data in chunks))


def write_page(tessera, folder):
    write_images(folder)
    (folder / "config.yaml").write_text(f"""run: {{dir: {folder / "run"}}}
model: {{kind: vit, num_layers: 2, hidden_size: 32, num_heads: 2, patch_size: {SIZE // PATCHES}, init_stddev: 0.5}}
data: {{train: {folder / "images-idx3-ubyte"}}}
batch: {{global: 8}}
train: {{steps: 2}}
""")
    for command in (["train", folder / "config.yaml"],
                    ["attention", folder / "run", "--image", folder / "image.png", "--output", folder / "page"]):
        subprocess.run([tessera, *map(str, command)], check=True, stdout=subprocess.DEVNULL)
    return folder / "page.html"


def expect(found, expected, what):
    if found != expected:
        sys.exit(f"{what}: {found!r} instead of {expected!r}")


def expect_picture(browser, head, query):
    """The darkest patch over the image has the largest weight for a token, up to a step of the colors."""
    weights = browser.evaluate(f"""JSON.parse(document.getElementById("attention").textContent)
        .sequences[0].heads[{head}].weights[{query}].slice(1)""")
    darkest = browser.evaluate(f"""{PEAK}(".over-image[data-index='{head}'] .weights")""")
    if weights[darkest] < 0.98 * max(weights):
        sys.exit(f"head {head}, query {query}: patch {darkest} is the darkest, but the weights are {weights}")


def check(browser, page, screenshots):
    browser.resize(1280, 900)
    browser.open(str(page))
    for head in (0, 1, 3):
        expect_picture(browser, head, query=0)
    box = browser.evaluate("(({x, y, width, height}) => [x, y, width, height])"
                           "(document.querySelector('.over-image').getBoundingClientRect())")
    if box[3] < 200:
        sys.exit(f"the picture over the image is only {box[3]} pixels high")
    # The middle of the patch in row 1 and column 2, of the plain image.
    at = (box[0] + box[2] * 2.5 / PATCHES / 2.08, box[1] + box[3] * 1.5 / PATCHES)
    for kind in ("mousePressed", "mouseReleased"):
        browser.mouse(kind, *at, button="left", clickCount=1)
    expect(browser.evaluate("document.querySelector('.queries output').textContent"),
           "the patch in row 1 and column 2", "the chosen patch")
    for head in (0, 1, 3):
        expect_picture(browser, head, query=1 + 5)
    browser.evaluate("document.querySelector('.over-image').focus()")
    browser.key("ArrowDown")
    expect(browser.evaluate("document.querySelector('.queries output').textContent"),
           "the patch in row 2 and column 2", "the patch after an arrow key")
    expect(browser.evaluate("document.querySelectorAll('.over-image .patch').length"), 8, "frames of the chosen patch")
    before = browser.evaluate("document.querySelector('[id$=-i0]').getAttribute('href')")
    browser.evaluate("(() => { const list = document.querySelector('.colors select'); list.value = 'each';"
                     " list.dispatchEvent(new Event('change')); })()")
    if before == browser.evaluate("document.querySelector('[id$=-i0]').getAttribute('href')"):
        sys.exit("a scale of its own does not change a map")
    if screenshots:
        browser.screenshot(screenshots / "attention.png", whole=True)
    background = "getComputedStyle(document.body).backgroundColor"
    light = browser.evaluate(background)
    browser.set_dark(True)
    if light == browser.evaluate(background):
        sys.exit("dark mode has the same background")
    if screenshots:
        browser.screenshot(screenshots / "attention_dark.png", whole=True)
    map_box = browser.evaluate("(({x, y}) => [x, y])(document.querySelector('.map').getBoundingClientRect())")
    browser.mouse("mouseMoved", map_box[0] + 100, map_box[1] + 150)
    if browser.evaluate("document.getElementById('tip').hidden"):
        sys.exit("there is no number under the pointer")
    expect(browser.errors, [], "errors")


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("tessera")
    parser.add_argument("--screenshots", type=pathlib.Path)
    options = parser.parse_args()
    program = find_browser()
    if program is None:
        sys.exit(77)
    with tempfile.TemporaryDirectory() as folder, Browser(program) as browser:
        check(browser, write_page(options.tessera, pathlib.Path(folder)), options.screenshots)


if __name__ == "__main__":
    main()

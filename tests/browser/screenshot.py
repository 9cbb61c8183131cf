#!/usr/bin/env python3
"""Takes a picture of a page: tests/browser/screenshot.py PAGE.html PICTURE.png [--size 1280x900] [--dark] [--whole]
[--hash "smooth=0.6"] [--pointer 700,300]"""

import argparse
import sys

from browser import Browser, find_browser


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("page")
    parser.add_argument("picture")
    parser.add_argument("--size", default="1280x900")
    parser.add_argument("--scale", type=float, default=1)
    parser.add_argument("--dark", action="store_true")
    parser.add_argument("--whole", action="store_true")
    parser.add_argument("--hash", default="")
    parser.add_argument("--pointer")
    options = parser.parse_args()
    program = find_browser()
    if program is None:
        sys.exit("Chromium is not installed")
    width, height = map(int, options.size.split("x"))
    with Browser(program) as browser:
        browser.resize(width, height, options.scale, mobile=width < 600)
        browser.set_dark(options.dark)
        browser.open(options.page)
        if options.hash:
            browser.evaluate(f"location.hash = {options.hash!r}")
            browser.reload()
        if options.pointer:
            x, y = map(int, options.pointer.split(","))
            browser.mouse("mouseMoved", x, y)
        browser.evaluate("0")
        browser.screenshot(options.picture, options.whole)
        for error in browser.errors:
            print(error)


if __name__ == "__main__":
    main()

"""Writes tests/parity/image_golden.json: small PNG and JPEG files of all kinds, and their pixels as Pillow reads them.

    pip install pillow numpy && python tests/parity/make_image_goldens.py

Each case has the file's bytes, its size, and the pixels of ImageOps.exif_transpose(image).convert("RGB") and "L", as
transformers' load_image() and a gray model read them. Without "rgb", Pillow refuses the file.
"""

import base64
import io
import json
import struct
import zlib
from pathlib import Path

import numpy as np
from PIL import Image, ImageCms, ImageOps, PngImagePlugin

ROWS, COLUMNS = 9, 13
random = np.random.default_rng(1)


def chunk(kind, data):
    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))


def packed(samples, depth):
    """Rows of samples of 1 to 16 bits, each after the number of its filter (none)."""
    rows = b""
    for row in samples:
        bits = "".join(format(int(value), f"0{depth}b") for value in row.flatten())
        bits += "0" * (-len(bits) % 8)
        rows += b"\0" + int(bits, 2).to_bytes(len(bits) // 8, "big")
    return rows


ADAM7 = [(0, 0, 8, 8), (0, 4, 8, 8), (4, 0, 8, 4), (0, 2, 4, 4), (2, 0, 4, 2), (0, 1, 2, 2), (1, 0, 2, 1)]


def png(depth, color, before=(), after=(), interlaced=False):
    """A PNG file of random samples with other chunks before and after its pixels."""
    channels = {0: 1, 2: 3, 3: 1, 4: 2, 6: 4}[color]
    most = min(2**depth, 12) if color == 3 else 2**depth
    samples = random.integers(0, most, (ROWS, COLUMNS, channels))
    if depth == 16:
        samples[:4] %= 300  # Pillow cuts gray values off at 255
    passes = ADAM7 if interlaced else [(0, 0, 1, 1)]
    rows = b"".join(packed(samples[y::down, x::right], depth) for y, x, down, right in passes)
    header = struct.pack(">IIBBBBB", COLUMNS, ROWS, depth, color, 0, 0, int(interlaced))
    return b"\x89PNG\r\n\x1a\n" + b"".join(
        [chunk(b"IHDR", header), *before, chunk(b"IDAT", zlib.compress(rows)), *after, chunk(b"IEND", b"")]
    )


def smooth(channels):
    """Pixels of which chroma subsampling keeps something."""
    y, x = np.mgrid[0:ROWS, 0:COLUMNS]
    waves = [127 + 100 * np.sin(0.3 * (c + 1) * x + 0.4 * y + c) + random.integers(-20, 20, x.shape) for c in range(channels)]
    return np.stack(waves, -1).clip(0, 255).astype(np.uint8)


def saved(image, kind="JPEG", **options):
    file = io.BytesIO()
    image.save(file, kind, **options)
    return file.getvalue()


def exif(orientation, order="<"):
    mark = b"II*\0" if order == "<" else b"MM\0*"
    entries = [(0x0100, 4, 1, COLUMNS), (0x0112, 3, 1, orientation)]
    data = mark + struct.pack(order + "IH", 8, len(entries))
    for tag, kind, count, value in entries:
        data += struct.pack(order + "HHI", tag, kind, count)
        data += struct.pack(order + ("H2x" if kind == 3 else "I"), value)
    return data + struct.pack(order + "I", 0)


def cases():
    palette = chunk(b"PLTE", random.integers(0, 256, 36, dtype=np.uint8).tobytes())
    for color, depths in {0: [1, 2, 4, 8, 16], 2: [8, 16], 3: [1, 2, 4, 8], 4: [8, 16], 6: [8, 16]}.items():
        for depth in depths:
            for interlaced in [False, True]:
                before = [palette] if color == 3 else []
                kind = {0: "gray", 2: "rgb", 3: "palette", 4: "gray_alpha", 6: "rgb_alpha"}[color]
                yield f"{kind}_{depth}{'_interlaced' if interlaced else ''}.png", png(depth, color, before, (), interlaced)
    transparent = {
        "gray_1": (1, 0, struct.pack(">H", 1)),
        "gray_8": (8, 0, struct.pack(">H", 100)),
        "gray_16": (16, 0, struct.pack(">H", 100)),
        "rgb_8": (8, 2, struct.pack(">HHH", 1, 2, 3)),
        "palette_4": (4, 3, bytes([0, 128, 255])),
    }
    for name, (depth, color, value) in transparent.items():
        yield f"{name}_trns.png", png(depth, color, [*([palette] if color == 3 else []), chunk(b"tRNS", value)])
    profile = ImageCms.ImageCmsProfile(ImageCms.createProfile("sRGB")).tobytes()
    yield "gamma.png", png(8, 2, [chunk(b"gAMA", struct.pack(">I", 100000))])
    yield "gamma_gray_16.png", png(16, 0, [chunk(b"gAMA", struct.pack(">I", 45455))])
    yield "srgb_background.png", png(8, 6, [chunk(b"sRGB", b"\0"), chunk(b"bKGD", struct.pack(">HHH", 9, 200, 77))])
    yield "profile.png", png(8, 2, [chunk(b"iCCP", b"p\0\0" + zlib.compress(profile))])
    yield "exif_before.png", png(8, 2, [chunk(b"eXIf", exif(6))])
    yield "exif_after.png", png(8, 2, (), [chunk(b"eXIf", exif(8, ">"))])
    raw = (b"Exif\0\0" + exif(7)).hex()
    yield "exif_text.png", png(8, 0, [chunk(b"tEXt", b"Raw profile type exif\0\nexif\n      44\n" + raw.encode())])
    packet = '<x:xmpmeta><tiff:Orientation>5</tiff:Orientation></x:xmpmeta>'
    yield "xmp.png", png(8, 2, [chunk(b"iTXt", b"XML:com.adobe.xmp\0\0\0\0\0" + packet.encode())])
    yield "no_end.png", png(8, 2)[:-12]

    color, gray = Image.fromarray(smooth(3)), Image.fromarray(smooth(1)[:, :, 0])
    for orientation in range(1, 9):
        order = "<" if orientation % 2 else ">"
        yield f"orientation_{orientation}.jpg", saved(color, exif=b"Exif\0\0" + exif(orientation, order))
    yield "orientation_9.jpg", saved(color, exif=b"Exif\0\0" + exif(9))
    yield "xmp.jpg", saved(color, xmp=b'<rdf:Description tiff:Orientation="3"/>')
    yield "exif_and_xmp.jpg", saved(color, exif=b"Exif\0\0" + exif(2), xmp=b'<a tiff:Orientation="3"/>')
    yield "gray.jpg", saved(gray)
    for subsampling in ["4:4:4", "4:2:2", "4:2:0"]:
        for progressive in [False, True]:
            name = f"{subsampling.replace(':', '')}{'_progressive' if progressive else ''}.jpg"
            yield name, saved(color, subsampling=subsampling, progressive=progressive, quality=85)
    yield "gray_progressive.jpg", saved(gray, progressive=True)
    yield "restarts.jpg", saved(color, restart_marker_blocks=1)
    yield "stored_rgb.jpg", saved(color, keep_rgb=True)
    yield "profile.jpg", saved(color, icc_profile=profile)
    inks = saved(Image.fromarray(smooth(4), "CMYK"), quality=90)
    adobe = inks.index(b"Adobe")
    yield "cmyk_adobe.jpg", inks
    yield "ycck_adobe.jpg", inks[: adobe + 11] + b"\2" + inks[adobe + 12 :]
    yield "cmyk_plain.jpg", inks[: adobe - 4] + inks[adobe + 12 :]
    yield "bytes_after_end.jpg", saved(color) + b"more" * 9
    yield "bytes_before_end.jpg", saved(color)[:-2] + b"\1\2\3\4" * 9 + b"\xff\xd9"
    yield "cut.jpg", saved(color, quality=95)[:-60]
    yield "cut_progressive.jpg", saved(color, quality=95, progressive=True)[:-60]
    yield "cut.png", png(8, 2)[:-150]


def reading(name, data):
    case = {"name": name, "file": base64.b64encode(data).decode()}
    try:
        image = ImageOps.exif_transpose(Image.open(io.BytesIO(data)))
        case["rows"], case["columns"] = image.height, image.width
        for key, mode in [("rgb", "RGB"), ("gray", "L")]:
            case[key] = base64.b64encode(np.asarray(image.convert(mode)).tobytes()).decode()
    except OSError as error:
        print(f"{name}: {error}")
    return case


def main():
    lines = [json.dumps(reading(name, data)) for name, data in cases()]
    Path(__file__).with_name("image_golden.json").write_text("[\n" + ",\n".join(lines) + "\n]\n")


main()

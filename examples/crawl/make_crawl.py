"""Puts a crawl into crawl/: the real samples where they lie beside the project, else one that is made up.

Made-up pages depend on their number alone. Several copies of a sample are one file: gzip members can be joined.
"""

import argparse
import gzip
import os
import random
import shutil
from collections.abc import Iterator
from pathlib import Path

HERE = Path(__file__).resolve().parent
REAL = Path(os.environ.get("CRAWL_SAMPLES", HERE.parents[2] / "shared" / "data" / "warc"))
PAGES = 400
SITES = {  # host: address, server, language
    "reef.example": ("192.0.2.10", "nginx", "en"),
    "coral.example": ("192.0.2.10", "nginx/1.18.0", "en"),
    "www.poisson.example": ("192.0.2.44", "Apache/2.4.41 (Ubuntu)", "fr"),
    "psari.example": ("192.0.2.71", "Apache", "el"),
    "fisch.example": ("192.0.2.71", "lighttpd/1.4.55", "de"),
}
COMMON = {
    "en": "the of and a in is to that over with",
    "fr": "le de la et les un une dans que sous",
    "el": "το και της την με στη που για από ένα",
    "de": "der die und das ein eine mit ist nicht im",
}
RARE = {
    "en": "shoal fish reef water light boat",
    "fr": "banc poisson mer eau bateau lumière",
    "el": "ψάρι θάλασσα νερό φως βάρκα ύφαλος",
    "de": "schwarm fisch meer wasser licht boot",
}


def text_of(number: int, language: str) -> str:
    """Words that are common, words that are not, and some that only few pages have."""
    chance = random.Random(number)
    words = [*chance.choices(COMMON[language].split(), k=60), *chance.choices(RARE[language].split(), k=30)]
    words += [f"w{int(chance.paretovariate(0.6)) % 5000}" for _ in range(30)]
    chance.shuffle(words)
    return ". ".join(" ".join(words[at : at + 12]).capitalize() for at in range(0, len(words), 12)) + "."


def page_of(number: int, host: str, text: str) -> str:
    chance = random.Random(number)
    items = "".join(f'<li><a href="https://{to}/">{to}</a></li>' for to in chance.sample(list(SITES), 3))
    paragraphs = "".join(f"<p>{sentence}.</p>" for sentence in text.split(". "))
    return (
        f"<!doctype html><html><head><title>{host}, page {number}</title></head><body>"
        f"<nav><ul>{items}</ul></nav><main><h1>Page {number}</h1>{paragraphs}</main></body></html>"
    )


def record(kind: str, headers: dict[str, str], content: bytes) -> bytes:
    """As crawlers write it: a gzip member for each."""
    fields = {"WARC-Type": kind, **headers, "Content-Length": str(len(content))}
    head = "".join(f"{name}: {value}\r\n" for name, value in fields.items())
    return gzip.compress(f"WARC/1.0\r\n{head}\r\n".encode() + content + b"\r\n\r\n", mtime=0)


def records(pages: int) -> Iterator[tuple[bytes, bytes]]:
    """Of each page, the answer of its server and its text."""
    for number in range(pages):
        host = random.Random(number).choices(list(SITES), [5, 3, 3, 2, 1])[0]
        address, server, language = SITES[host]
        uri, text = f"https://{host}/{number}", text_of(number, language)
        status = "404 Not Found" if number % 20 == 7 else "200 OK"
        http = f"HTTP/1.1 {status}\r\nServer: {server}\r\nContent-Type: text/html; charset=utf-8\r\n\r\n"
        answer = {
            "WARC-Target-URI": uri,
            "WARC-IP-Address": address,
            "Content-Type": "application/http; msgtype=response",
        }
        yield (
            record("response", answer, (http + page_of(number, host, text)).encode()),
            record("conversion", {"WARC-Target-URI": uri, "Content-Type": "text/plain"}, text.encode()),
        )


def copies(size: float, files: list[Path]) -> int:
    """How often these files are repeated, to come to as many megabytes."""
    return max(1, round(size * 1e6 / sum(file.stat().st_size for file in files)))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "--pages", type=int, help=f"make up so many ({PAGES}), even where there are real ones"
    )
    parser.add_argument("--size", type=float, default=0.0, help="megabytes of each kind, by copies of them")
    given = parser.parse_args()
    to = HERE / "crawl"
    shutil.rmtree(to, ignore_errors=True)
    to.mkdir()
    if given.pages is None and REAL.is_dir():
        for file in [*REAL.glob("c*/*.warc.gz"), *REAL.glob("c*/*.wet.gz")]:
            shutil.copyfile(file, to / file.name)
    else:
        made = list(records(given.pages or PAGES))
        (to / "made.warc.gz").write_bytes(b"".join(answer for answer, _ in made))
        (to / "made.wet.gz").write_bytes(b"".join(text for _, text in made))
    for ending in ("warc", "wet"):
        files = sorted(to.glob(f"*.{ending}.gz"))
        times = copies(given.size, files)
        for file in files:
            file.write_bytes(file.read_bytes() * times)
        print(f"{len(files)} .{ending}.gz files, {sum(file.stat().st_size for file in files):,} bytes")


if __name__ == "__main__":
    main()

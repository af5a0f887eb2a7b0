"""The model of languages.yaml: tells languages apart by their most common words, or by their script."""

import re

COMMON = {
    "en": "the of and to in is that for with on are this be from by",
    "fr": "le la les de des et un une est dans que pour pas sur au",
    "de": "der die das und ist nicht ein eine mit von zu den im auf für",
    "es": "el los las que y en del se por con una para es como más",
    "el": "το και της την με στη που για από ένα τα οι είναι δεν θα",
}
WORD = re.compile(r"\w+")
HAN = re.compile(r"[\u4e00-\u9fff]")
LEAST = 0.05  # of all words; with less, it is a list of names, or another language


class Language:
    def __init__(self) -> None:
        self._common = {name: frozenset(words.split()) for name, words in COMMON.items()}

    def __call__(self, batch: list[str]) -> list[dict[str, object]]:
        return [self._of(text) for text in batch]

    def _of(self, text: str) -> dict[str, object]:
        words = WORD.findall(text.lower())
        if len(HAN.findall(text)) > len(text) / 5:
            return {"language": "zh", "score": 1.0}
        shares = {
            name: sum(word in common for word in words) / max(1, len(words))
            for name, common in self._common.items()
        }
        best = max(shares, key=lambda name: shares[name])
        return {"language": best if shares[best] >= LEAST else "other", "score": shares[best]}

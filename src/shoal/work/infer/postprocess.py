"""From what a model gives for a batch to columns of the output: classes, raw values, or columns of the user's own."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from shoal.engine.workers.runner import Failed
from shoal.work import functions
from shoal.work.protocols import Columns, Finish

if TYPE_CHECKING:
    from shoal.spec.infer import Postprocess
    from shoal.work.protocols import Array

NAN = "the model returned NaN"
_OWN = "use postprocess: {function: ...}"


def finishing(spec: Postprocess) -> Finish:
    """What the file asks for. Imports the user's function, so in a worker only."""
    if spec.function is not None:
        return _Own(spec.function)
    if spec.softmax or spec.labels or spec.top or spec.prob_of:
        return _Classes(spec)
    return _raw


def _raw(outputs: Any, count: int) -> tuple[Columns, dict[int, str]]:
    """As the model gives it: `value`, `output`, or `output_0`, `output_1` and so on; a function's own columns."""
    own = _own_columns(outputs, count, "the model")
    if own is not None:
        return own
    arrays = _checked(_arrays(outputs), count)
    if len(arrays) == 1:
        (array,) = arrays
        single = array.ndim == 1 or array.shape[1:] == (1,)
        columns = {"value": array.reshape(count)} if single else {"output": array}
    else:
        columns = dict(zip(_names(outputs, len(arrays)), arrays, strict=True))
    return columns, _nan(arrays, count)


class _Own:
    """A function of the user's makes the columns."""

    def __init__(self, reference: str) -> None:
        self._reference = reference
        self._function: Callable[..., Any] = functions.load(reference)

    def __call__(self, outputs: Any, count: int) -> tuple[Columns, dict[int, str]]:
        found = self._function(outputs)
        own = _own_columns(found, count, f"postprocess.function ({self._reference})")
        if own is None:
            raise Failed(
                f"postprocess.function ({self._reference}) gave a {type(found).__name__}:"
                " it has to give a dict of columns, or a list with a dict for each input."
            )
        columns, bad = own
        return columns, {**_nan(_numbers(outputs), count), **bad}


class _Classes:
    """Scores of classes: the best of them, or the best few, with labels and probabilities."""

    def __init__(self, spec: Postprocess) -> None:
        self._spec = spec

    def __call__(self, outputs: Any, count: int) -> tuple[Columns, dict[int, str]]:
        import numpy as np

        if _own_columns(outputs, count, "the model") is not None:
            raise Failed(
                f"postprocess needs the scores of classes, and the model gives columns: {_OWN}, or none at all."
            )
        arrays = _checked(_arrays(outputs), count)
        if _is_single(arrays) and not self._spec.labels and not self._spec.softmax:
            return {"value": arrays[0].reshape(count)}, _nan(arrays, count)
        scores = self._scores(arrays)
        probabilities = softmax(scores) if self._spec.softmax else scores
        probabilities = probabilities.astype(np.float32)
        top = self._spec.top or 1
        order = np.argsort(-scores, axis=1, kind="stable")[:, :top]
        chosen = np.take_along_axis(probabilities, order, axis=1)
        columns: dict[str, Any] = {"label": self._named(order[:, 0]), "prob": chosen[:, 0]}
        if top > 1:
            columns |= {"labels": self._named(order), "probs": chosen}
        for label in self._spec.prob_of:
            columns[f"prob_{label}"] = probabilities[:, self._spec.labels.index(label)]
        return columns, _nan(arrays, count)

    def _scores(self, arrays: Sequence[Array]) -> Array:
        """A row of scores for each input, or the sentence that says why there is none."""
        labels, top = self._spec.labels, self._spec.top
        if len(arrays) > 1:
            shapes = " and ".join(_shape(array) for array in arrays)
            raise Failed(
                f"The model gives {len(arrays)} outputs ({shapes}), and postprocess needs one: {_OWN}."
            )
        (array,) = arrays
        if array.dtype.kind not in "biuf":
            raise Failed(f"postprocess needs scores, and the model gives {array.dtype}: {_OWN}.")
        if _is_single(arrays):
            if len(labels) == 1 and not self._spec.softmax:
                return _float(array.reshape(-1, 1))
            raise Failed(_one_score(len(labels)))
        if array.ndim != 2:
            raise Failed(
                f"postprocess needs a row of scores for each input, and the model gives {_shape(array)}: {_OWN}."
            )
        classes = array.shape[1]
        if labels and len(labels) != classes:
            raise Failed(
                f"postprocess.labels has {len(labels)} labels, and the model gives {classes} classes:"
                " name each class once, in the order of its scores."
            )
        if top is not None and top > classes:
            raise Failed(
                f"postprocess.top is {top}, and the model gives {classes} classes: set it to {classes} at most."
            )
        return _float(array)

    def _named(self, numbers: Array) -> Any:
        """Labels for the numbers of classes, or these where there are no labels."""
        import numpy as np

        if not self._spec.labels:
            return numbers.astype(np.int64)
        return np.array(self._spec.labels, dtype=object)[numbers].tolist()


def softmax(scores: Array) -> Array:
    """Over the last axis. An infinite score takes all; several of them share it."""
    import numpy as np

    highest = scores.max(axis=-1, keepdims=True)
    with np.errstate(invalid="ignore"):
        weights = np.exp(np.where(scores == highest, 0, scores - highest))
    shares: Array = weights / weights.sum(axis=-1, keepdims=True)
    return shares


def _one_score(labels: int) -> str:
    start = "The model gives one score for each input"
    if labels:
        return (
            f"{start}, and postprocess.labels has {labels} labels: which of them a score means is not said."
            f" Export the model with a score for each class, or {_OWN}."
        )
    return f"{start}, and softmax of a single score is always 1: leave out softmax, or {_OWN}."


def _own_columns(found: Any, count: int, whose: str) -> tuple[Columns, dict[int, str]] | None:
    """Columns that were given as columns, or as a row for each input, and inputs for which there is none; None where
    it is something else."""
    bad: dict[int, str] = {}
    if isinstance(found, list) and any(isinstance(row, Mapping) for row in found):
        if len(found) != count:
            raise Failed(f"{_capital(whose)} gave {len(found)} rows for {count} inputs.")
        for index, row in enumerate(found):
            if not isinstance(row, Mapping):
                given = "None" if row is None else f"a {type(row).__name__}"
                bad[index] = f"{whose} gave {given} instead of a row"
        given_rows = [{} if index in bad else row for index, row in enumerate(found)]
        names = dict.fromkeys(name for row in given_rows for name in row)
        found = {name: [row.get(name) for row in given_rows] for name in names}
    if not isinstance(found, Mapping):
        return None
    if not found or not all(isinstance(name, str) for name in found):
        raise Failed(f"{_capital(whose)} gave columns without names: the keys of a dict of columns are text.")
    columns = {name: _column(values) for name, values in found.items()}
    for name, values in columns.items():
        if values is None or len(values) != count:
            given = "no list" if values is None else f"{len(values)} values"
            raise Failed(f"{_capital(whose)} gave {given} in column {name!r} for {count} inputs.")
    return columns, bad


def _column(values: Any) -> Any:
    """The values of a column, as an array or a list; None where there are none."""
    values = _plain(values)
    if isinstance(values, str | bytes) or not hasattr(values, "__len__") or getattr(values, "ndim", 1) == 0:
        return None
    return values if hasattr(values, "dtype") else list(values)


def _plain(values: Any) -> Any:
    """A tensor of torch as an array; anything else as it is."""
    if hasattr(values, "detach") and hasattr(values, "numpy"):
        values = values.detach().cpu()
        return (values.float() if "float16" in str(values.dtype) else values).numpy()
    return values


def _arrays(outputs: Any) -> list[Array]:
    """Several outputs come as a tuple; a list has a value for each input."""
    import numpy as np

    parts = outputs if isinstance(outputs, tuple) else (outputs,)
    try:
        return [np.asarray(_plain(part)) for part in parts]
    except ValueError:
        raise Failed(
            "The model gave lists of several lengths: have it give arrays, or columns as a dict."
        ) from None


def _checked(arrays: list[Array], count: int) -> list[Array]:
    if not arrays:
        raise Failed("The model gave nothing.")
    for array in arrays:
        if array.ndim == 0 or array.dtype.kind == "V":
            raise Failed(f"The model gave a single value for {count} inputs: it has to give a row for each.")
        if len(array) != count:
            raise Failed(
                f"The model gave {len(array)} rows ({_shape(array)}) for {count} inputs:"
                " it has to give a row for each."
            )
    return arrays


def _numbers(outputs: Any) -> list[Array]:
    """Outputs of a model file. Those of a function may be anything, which is for the user's function to judge."""
    import numpy as np

    parts = outputs if isinstance(outputs, tuple) else (outputs,)
    return [part for part in parts if isinstance(part, np.ndarray) and part.ndim]


def _nan(arrays: Sequence[Array], count: int) -> dict[int, str]:
    import numpy as np

    bad: set[int] = set()
    for array in arrays:
        if array.dtype.kind == "f" and len(array) == count:
            bad.update(np.flatnonzero(np.isnan(array).reshape(count, -1).any(axis=1)).tolist())
    return dict.fromkeys(sorted(bad), NAN)


def _names(outputs: Any, count: int) -> list[str]:
    names = getattr(outputs, "names", ())
    return list(names) if len(set(names)) == count else [f"output_{number}" for number in range(count)]


def _is_single(arrays: Sequence[Array]) -> bool:
    return len(arrays) == 1 and (arrays[0].ndim == 1 or arrays[0].shape[1:] == (1,))


def _float(array: Array) -> Array:
    import numpy as np

    return array if array.dtype == np.float64 else array.astype(np.float32)


def _shape(array: Array) -> str:
    return "x".join(map(str, array.shape))


def _capital(text: str) -> str:
    return text[:1].upper() + text[1:] if text.startswith("the ") else text

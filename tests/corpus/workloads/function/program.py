"""A function of `__main__`, which is sent by value, with rows of which two fail until there is a file `mended`."""

import os

import shoal

SCALE = 10


def scaled(x):
    return SCALE * x


def train(x, name):
    with open("ran.txt", "a") as file:
        file.write(f"{x}\n")
    print("trial of", name)
    if x >= 3 and not os.path.exists("mended"):
        raise ValueError(f"{name} is not mended yet")
    return {"y": scaled(x)}


if __name__ == "__main__":
    rows = [{"x": x, "name": f"row {x}"} for x in range(5)]
    shoal.run(train, rows, name="program", concurrent=1, objective={"metric": "y", "goal": "max"})

"""Trials that end in all the ways there are, until there is a file `mended`."""

import os
import signal
import time


def main(x, how):
    with open("ran.txt", "a") as file:
        file.write(f"{x}\n")
    print("this one ends with", how)
    if not os.path.exists("mended"):
        if how == "raise":
            raise ValueError("no luck with a żółw")
        if how == "exit":
            os._exit(3)
        if how == "killed":
            os.kill(os.getpid(), signal.SIGKILL)
        while how == "hang":
            time.sleep(0.1)
    return {"y": 10 * x}

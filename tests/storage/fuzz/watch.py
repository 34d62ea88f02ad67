"""What Python code does besides reading: files opened for writing, processes, sockets, pickles, odd modules."""

import os
import sys
import traceback
from pathlib import Path

_WRITES = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_APPEND
_OF_OS = "exec fork posix_spawn spawn system"
_ALWAYS = ("subprocess.", "socket.", "pickle.", "ctypes.dlopen", *(f"os.{own}" for own in _OF_OS.split()))
_CHANGES = ("shutil.", *(f"os.{own}" for own in "remove rename rmdir mkdir link symlink truncate chmod".split()))
_COMPILERS = ("/site-packages/numba/", "/site-packages/pytensor/")
_GUARD = ("/bayesdp/storage/guarded.py",)  # the child process in which a file is read first


class Watch:
    """An audit hook, from now to the end of the process, for a task that may write in some files or folders."""

    def __init__(self, *may_write):
        cached = [os.environ.get(name) for name in ("NUMBA_CACHE_DIR", "MPLCONFIGDIR")]  # compiled functions and fonts
        cached += [f"{Path.home()}/.cache", f"{Path.home()}/.pytensor", "/dev/null", "/dev/shm"]
        self.may_write = (*map(str, may_write), *filter(None, cached))
        self.seen, self.modules = [], set(sys.modules)
        sys.dont_write_bytecode = True  # Python's own files beside a module that is imported late
        sys.addaudithook(self._hear)

    def _hear(self, event, arguments):
        """Unless a function of some files is at work: the child's, or a compiler, which writes sources and caches."""
        if found := self._found(event, arguments):
            files = _GUARD if event == "os.fork" or event.startswith("pickle.") else _COMPILERS
            at_work = [frame.f_code.co_filename for frame, _ in traceback.walk_stack(sys._getframe())]
            if not any(own in name for name in at_work for own in files):
                self.seen.append(found)

    def _found(self, event, arguments):
        told, paths = f"{event}{arguments!r:.200}", []
        if event.startswith(_ALWAYS):
            return told
        if event.startswith(_CHANGES):
            paths = [own for own in arguments if isinstance(own, (str, bytes, os.PathLike))]
        elif event == "open" and isinstance(arguments[0], (str, bytes)) and arguments[2] & _WRITES:
            paths = [arguments[0]]
        return "" if all(map(self._allowed, paths)) else told

    def _allowed(self, path):
        full = os.path.abspath(os.fsdecode(path))
        return any(full == own or full.startswith(f"{own}/") for own in self.may_write)

    def odd_modules(self):
        homes = (sys.prefix, sys.base_prefix, str(Path(__file__).resolve().parents[3]))
        homes += tuple(os.path.realpath(own) for own in homes)
        new = {name: getattr(sys.modules[name], "__file__", None) for name in set(sys.modules) - self.modules}
        return sorted(name for name, file in new.items() if file and not file.startswith(homes))


def listing(folder):
    plain = {entry: entry.is_file() and not entry.is_symlink() for entry in sorted(folder.rglob("*"))}
    return {str(entry.relative_to(folder)): entry.read_bytes() if plain[entry] else None for entry in plain}

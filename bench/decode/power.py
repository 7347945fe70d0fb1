# Part of the mlac project, under the Apache License v2.0 with LLVM Exceptions.
# See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""What a contestant draws while it runs without a pause: watts, clock, energy of a step.

At the board's power limit a kernel that needs fewer cycles runs at a lower clock: then
energy, not the schedule, sets the time. NVML's counters tell which of both it is.
"""

import ctypes
import time

SM_CLOCK, MEMORY_CLOCK = 1, 2  # nvmlClockType_t
POWER_CAP = 0x4 | 0x80  # nvmlClocksEventReasonSwPowerCap, ...HwPowerBrakeSlowdown


class Nvml:
    def __init__(self):
        self.library = ctypes.CDLL("libnvidia-ml.so.1")
        self.device = ctypes.c_void_p()
        self._call("nvmlInit_v2")
        self._call("nvmlDeviceGetHandleByIndex_v2", 0, ctypes.byref(self.device))

    def _call(self, name, *arguments):
        status = getattr(self.library, name)(*arguments)
        if status:
            raise RuntimeError(f"{name} failed with NVML error {status}")

    def _read(self, name, kind, *arguments):
        value = kind()
        self._call(name, self.device, *arguments, ctypes.byref(value))
        return value.value

    def clock_mhz(self, kind=SM_CLOCK):
        return self._read("nvmlDeviceGetClockInfo", ctypes.c_uint, kind)

    def is_capped(self):
        reasons = self._read("nvmlDeviceGetCurrentClocksThrottleReasons", ctypes.c_ulonglong)
        return bool(reasons & POWER_CAP)

    def joules(self):
        return self._read("nvmlDeviceGetTotalEnergyConsumption", ctypes.c_ulonglong) / 1e3

    def limit_watts(self):
        return self._read("nvmlDeviceGetEnforcedPowerLimit", ctypes.c_uint) / 1e3


def measure(nvml, contestant, seconds):
    """Replays `contestant` for `seconds`; the first third only warms up."""
    start = time.perf_counter()
    while time.perf_counter() - start < seconds / 3:
        contestant.replay(is_timed=False)
    clocks, capped, replays = [], 0, 0
    joules, start = nvml.joules(), time.perf_counter()
    while time.perf_counter() - start < seconds * 2 / 3:
        contestant.replay(is_timed=False)
        clocks.append(nvml.clock_mhz())
        capped += nvml.is_capped()
        replays += 1
    elapsed, used = time.perf_counter() - start, nvml.joules() - joules
    steps = replays * contestant.steps
    return {"watts": used / elapsed, "mhz": sum(clocks) / len(clocks), "capped": capped / replays,
            "joules_per_step": used / steps, "seconds_per_step": elapsed / steps}


def format_line(name, result):
    return (f"    {name:24} {result['seconds_per_step'] * 1e6:8.1f} us sustained, "
            f"{result['watts']:4.0f} W, {result['mhz']:5.0f} MHz, at the power limit "
            f"{result['capped']:4.0%} of the time, {result['joules_per_step'] * 1e3:7.2f} mJ a step")

"""A worker that may be paused, killed or overtaken: Reserve, work, Transition, Release.

Generate the stubs beside this file (README, "A webhook handler in Python"), then:

    python examples/python/worker.py parcel 7
"""

import os
import sys
import threading
import time
import uuid

import grpc
from fencepost.v1.coordination_pb2 import (
    Intent,
    Move,
    ReleaseRequest,
    RenewRequest,
    ReserveRequest,
    TransitionRequest,
)
from fencepost.v1.coordination_pb2_grpc import CoordinationServiceStub
from fencepost.v1.decision_pb2 import ADVICE_PROCEED, ADVICE_RETRY, Advice, Resource, Result

SIDECAR = os.environ.get("FENCEPOST_ADDR", "127.0.0.1:7411").removeprefix("http://")
# The sidecar is on this machine: never by way of an HTTP proxy.
channel = grpc.insecure_channel(SIDECAR, options=[("grpc.enable_http_proxy", 0)])
sidecar = CoordinationServiceStub(channel)
CALL_SECONDS = 2
ATTEMPTS_MAX = 30


def now() -> float:
    """Seconds of a clock that runs through suspend, where there is one."""
    return time.clock_gettime(getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC))


def again(call, request):
    """Asks until there is an answer. The ids in the request stay the same, so the answer is the truth."""
    for _ in range(ATTEMPTS_MAX):
        try:
            return call(request, timeout=CALL_SECONDS)
        except grpc.RpcError as error:
            if error.code() == grpc.StatusCode.INVALID_ARGUMENT:
                raise
            time.sleep(0.2)
    raise SystemExit("the sidecar does not answer")


class Lost(Exception):
    """The resource is not ours any more: stop at once, and write nothing."""


class Round:
    """One reservation, renewed by a thread until it is released or lost."""

    def __init__(self, resource: Resource):
        request = ReserveRequest(resource=resource, request_id=str(uuid.uuid4()), holder=f"worker {os.getpid()}")
        for _ in range(ATTEMPTS_MAX):
            answer = self.safe_from(lambda: again(sidecar.Reserve, request))
            if answer.decision.advice != ADVICE_RETRY:
                break
            time.sleep(answer.decision.retry_after.ToTimedelta().total_seconds())
        if answer.decision.advice != ADVICE_PROCEED:
            raise Lost(answer.decision.explanation)
        self.id, self.token = answer.reservation.reservation_id, answer.reservation.token
        self.over = threading.Event()
        self.renewing = threading.Thread(target=self.renew, daemon=True)
        self.renewing.start()

    def safe_from(self, call):
        """Counts `safe_for` from the moment before the call: that is when it certainly was not later."""
        asked = now()
        answer = call()
        if answer.decision.advice == ADVICE_PROCEED:
            self.safe_until = asked + answer.reservation.safe_for.ToTimedelta().total_seconds()
        return answer

    def renew(self):
        request = RenewRequest(reservation_id=self.id)
        while not self.over.wait(max(0.1, (self.safe_until - now()) / 3)):
            try:
                answer = self.safe_from(lambda: sidecar.Renew(request, timeout=CALL_SECONDS))
            except grpc.RpcError:
                continue  # The time that is left says how long we may go on without an answer.
            if answer.decision.advice != ADVICE_PROCEED:
                self.safe_until = 0.0
                return

    def check(self):
        """Before every step that others can see."""
        if now() >= self.safe_until:
            raise Lost("the reservation's time may have run out")

    def release(self):
        self.over.set()
        self.renewing.join()
        again(sidecar.Release, ReleaseRequest(reservation_id=self.id))


def work(round: Round):
    for _ in range(3):
        round.check()
        time.sleep(0.1)  # a step; a database takes `round.token` along: UPDATE … WHERE fence <= token


def main(kind: str, id: str):
    resource = Resource(kind=kind, id=id)
    round = Round(resource)
    try:
        work(round)
        answer = again(sidecar.Transition, TransitionRequest(
            resource=resource,
            reservation_id=round.id,                               # refused if the round is over
            intent=Intent(
                operation_id=f"shelve-{id}",                       # the job's own name: a second run is a replay
                json=b"{}",
                move=Move(initial_state="arrived", to_state="shelved"),
            ),
            result=Result(body=b"shelf 9"),
        ))
        print(Advice.Name(answer.decision.advice), answer.decision.result.body.decode(), flush=True)
    finally:
        round.release()


if __name__ == "__main__":
    try:
        main(*sys.argv[1:])
    except Lost as lost:
        sys.exit(f"lost: {lost}")

"""A payment webhook that may come late, twice, or out of order.

Generate the stubs beside this file, then run it (README, "A webhook handler in Python"):

    fencepost proto proto
    python -m grpc_tools.protoc -I proto --python_out=examples/python --grpc_python_out=examples/python \
        proto/fencepost/v1/*.proto
    python examples/python/webhook.py
"""

import json
import os
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import grpc
from fencepost.v1.coordination_pb2 import Intent, TransitionRequest
from fencepost.v1.coordination_pb2_grpc import CoordinationServiceStub
from fencepost.v1.decision_pb2 import (
    ADVICE_ABANDON,
    ADVICE_ACKNOWLEDGE,
    ADVICE_PROCEED,
    ADVICE_REFUSE,
    ADVICE_RETRY,
    Resource,
    Result,
)

SIDECAR = os.environ.get("FENCEPOST_ADDR", "127.0.0.1:7411").removeprefix("http://")
# The sidecar is on this machine: never by way of an HTTP proxy.
channel = grpc.insecure_channel(SIDECAR, options=[("grpc.enable_http_proxy", 0)])
sidecar = CoordinationServiceStub(channel)

HTTP_STATUS = {
    ADVICE_PROCEED: 200,
    ADVICE_ACKNOWLEDGE: 200,
    ADVICE_RETRY: 503,
    ADVICE_REFUSE: 409,
    ADVICE_ABANDON: 503,
}


# [core]
def payment_succeeded(event: dict, body: bytes) -> tuple[int, bytes]:
    answer = sidecar.Transition(TransitionRequest(
        resource=Resource(kind="order", id=event["order"]),
        intent=Intent(
            operation_id=event["id"],                              # equal in every resend
            identity={"payment_attempt_id": event["attempt"]},     # proves the round, not the version
            event="pay",                                           # the machine says from where to where
            json=body,                                             # same key, other content: CONFLICT
        ),
        result=Result(code=200, body=b"booked"),                   # what every duplicate is answered
    ), timeout=5)
    return HTTP_STATUS.get(answer.decision.advice, 503), answer.decision.result.body
# [/core]


class Webhook(BaseHTTPRequestHandler):
    def do_POST(self):
        body = self.rfile.read(int(self.headers["content-length"]))
        try:
            status, answer = payment_succeeded(json.loads(body), body)
        except (ValueError, KeyError, TypeError):
            status, answer = 400, b"not an event"
        except grpc.RpcError as error:
            # Nothing that we may rely on was decided. The sender comes again with the same id, and gets the truth.
            invalid = error.code() == grpc.StatusCode.INVALID_ARGUMENT
            status, answer = 400 if invalid else 503, error.details().encode()
        self.send_response(status)
        self.send_header("content-length", str(len(answer)))
        self.end_headers()
        self.wfile.write(answer)

    def log_message(self, *args):
        pass


if __name__ == "__main__":
    server = ThreadingHTTPServer(("127.0.0.1", int(os.environ.get("WEBHOOK_PORT", "8080"))), Webhook)
    print(f"listening on http://127.0.0.1:{server.server_port}", flush=True)
    server.serve_forever()

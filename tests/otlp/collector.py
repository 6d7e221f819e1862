"""A collector for tests: takes traces by OTLP (HTTP, protobuf) and prints each span as a line of JSON.

It reads requests by OpenTelemetry's own messages, so that what it prints was understood by others than those who wrote
it. The first line is the address that it listens on. It ends with its standard input.
"""

import json
import os
import sys
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import (
    ExportTraceServiceRequest,
    ExportTraceServiceResponse,
)
from opentelemetry.proto.trace.v1.trace_pb2 import Span

PRINTING = threading.Lock()


def value(any_value):
    """The one of several that is set."""
    kind = any_value.WhichOneof("value")
    assert kind is not None, "an attribute without a value"
    return getattr(any_value, kind)


def attributes(pairs):
    found = {}
    for pair in pairs:
        assert pair.key not in found, f"{pair.key} is there twice"
        found[pair.key] = value(pair.value)
    return found


def ids(span):
    assert len(span.trace_id) == 16 and any(span.trace_id), "a trace has 16 bytes, and not all are 0"
    assert len(span.span_id) == 8 and any(span.span_id), "a span has 8 bytes, and not all are 0"
    return {"trace": span.trace_id.hex(), "span": span.span_id.hex()}


def shown(resource, scope, span):
    assert span.end_time_unix_nano >= span.start_time_unix_nano > 0, "a span ends before its start"
    assert len(span.parent_span_id) in (0, 8)
    return {
        **ids(span),
        "parent": span.parent_span_id.hex() or None,
        "state": span.trace_state,
        "flags": span.flags,
        "name": span.name,
        "kind": Span.SpanKind.Name(span.kind).removeprefix("SPAN_KIND_"),
        "start_ns": span.start_time_unix_nano,
        "end_ns": span.end_time_unix_nano,
        "attributes": attributes(span.attributes),
        "events": [
            {"name": event.name, "at_ns": event.time_unix_nano, "attributes": attributes(event.attributes)}
            for event in span.events
        ],
        "links": [ids(link) for link in span.links],
        "error": span.status.message if span.status.code == 2 else None,
        "resource": resource,
        "scope": scope.name,
    }


class Collector(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_POST(self):
        assert self.path == "/v1/traces", self.path
        assert self.headers["content-type"] == "application/x-protobuf", self.headers
        request = ExportTraceServiceRequest()
        request.ParseFromString(self.rfile.read(int(self.headers["content-length"])))
        for of_resource in request.resource_spans:
            resource = attributes(of_resource.resource.attributes)
            for of_scope in of_resource.scope_spans:
                for span in of_scope.spans:
                    line = json.dumps(shown(resource, of_scope.scope, span))
                    with PRINTING:
                        print(line, flush=True)
        answer = ExportTraceServiceResponse().SerializeToString()
        self.send_response(200)
        self.send_header("content-type", "application/x-protobuf")
        self.send_header("content-length", str(len(answer)))
        self.end_headers()
        self.wfile.write(answer)

    def log_message(self, *_):
        pass


def main():
    server = ThreadingHTTPServer(("127.0.0.1", 0), Collector)
    server.daemon_threads = True
    print("%s:%d" % server.server_address, flush=True)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    sys.stdin.read()
    os._exit(0)


if __name__ == "__main__":
    main()

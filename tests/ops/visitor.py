"""A visitor of the dashboard without a browser: Streamlit's protocol over a websocket.

Forward messages (`ForwardMsg`) describe the page; back messages (`BackMsg`) request a rerun
with the state of the widgets, as Streamlit's own frontend does.
"""

from __future__ import annotations

import contextlib
import random
import time
import urllib.request
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import parse_qs, urlencode, urlsplit

from streamlit.proto.BackMsg_pb2 import BackMsg
from streamlit.proto.Element_pb2 import Element
from streamlit.proto.ForwardMsg_pb2 import ForwardMsg
from streamlit.proto.NumberInput_pb2 import NumberInput
from streamlit.proto.Slider_pb2 import Slider
from streamlit.proto.TextInput_pb2 import TextInput
from streamlit.proto.WidgetStates_pb2 import WidgetState
from websockets.sync.client import ClientConnection, connect

#: Elements that hold a choice.
CHOICES = ("selectbox", "number_input", "text_input", "slider", "button_group", "checkbox")
_SIDEBAR = 1  # the first number of the delta path of elements in the sidebar
_DONE = (ForwardMsg.FINISHED_SUCCESSFULLY, ForwardMsg.FINISHED_FRAGMENT_RUN_SUCCESSFULLY)
_MESSAGE_BYTES = 200 * 2**20
_PATIENCE_S = 90.0


@dataclass(frozen=True, slots=True)
class Widget:
    """A widget on the page.

    id: of Streamlit's.  kind: of `CHOICES`.  fragment: id of the fragment that it reruns, "" for
    the page.  in_sidebar: whether it stays when the page changes.
    """

    id: str
    kind: str
    proto: Any
    fragment: str
    in_sidebar: bool

    def other_state(self, rng: random.Random, now: WidgetState | None) -> WidgetState | None:
        """A state that differs from `now` (None: the default); None if there is no other."""
        states = list(_OTHERS[self.kind](self.proto))
        held = now or _default(self)
        others = [state for state in states if state != held]
        return rng.choice(others) if others else None


@dataclass(frozen=True, slots=True)
class Rerun:
    """A rerun as the visitor saw it.

    kind: "open", "page", "sidebar", "control" or "button".  page: the title in the navigation.
    seconds: from the request to the end of the script.  received_bytes: of all messages.
    errors: exceptions among the elements, a line each.
    """

    kind: str
    page: str
    seconds: float
    received_bytes: int
    errors: tuple[str, ...]


@dataclass(slots=True)
class Visitor:
    """A session like a browser's tab: its address, the page as last drawn, its widgets.

    pages: hashes of the navigation's pages by title.  redirect: where the page sends the browser,
    "" for nowhere.  reruns: all of them.  Each action draws the page again and returns the visitor.
    """

    socket: ClientConnection
    query: str = ""
    page_hash: str = ""
    pages: dict[str, str] = field(default_factory=dict)
    redirect: str = ""
    reruns: list[Rerun] = field(default_factory=list)
    _states: dict[str, WidgetState] = field(default_factory=dict)
    _elements: dict[tuple[int, ...], tuple[Element, str]] = field(default_factory=dict)
    _cached: dict[str, ForwardMsg] = field(default_factory=dict)

    @property
    def page(self) -> str:
        """Title of the page shown."""
        return next((name for name, key in self.pages.items() if key == self.page_hash), "")

    @property
    def elements(self) -> list[tuple[str, Any]]:
        """The elements of the page with their kinds ("button", "markdown"), from top to bottom."""
        elements = (element for _, (element, _) in sorted(self._elements.items()))
        return [(kind, getattr(e, kind)) for e in elements if (kind := e.WhichOneof("type"))]

    def words(self, kind: str) -> list[str]:
        """The texts of the elements of a kind: alerts, headings, labels of buttons."""
        found = [element for name, element in self.elements if name == kind]
        return [getattr(element, "body", "") or getattr(element, "label", "") for element in found]

    def options(self, label: str) -> list[str]:
        """The options of the box with that label."""
        boxes = [box for kind, box in self.elements if kind == "selectbox"]
        return next(list(box.options) for box in boxes if box.label == label)

    @property
    def widgets(self) -> list[Widget]:
        """The enabled widgets with a choice that are in no form."""
        return list(self._widgets())

    def _widgets(self) -> Iterator[Widget]:
        for path, (element, fragment) in sorted(self._elements.items()):
            kind = element.WhichOneof("type")
            if kind in CHOICES:
                proto = getattr(element, kind)
                if not (proto.disabled or proto.form_id):
                    yield Widget(proto.id, kind, proto, fragment, path[0] == _SIDEBAR)

    def open(self, query: str = "", page: str = "") -> Visitor:
        """Open an address: its query, and its page, "roofline" or "" for the first."""
        self.query, self.page_hash = query, ""
        self._states.clear()
        return self._rerun("open", page_name=page)

    def turn_to(self, page: str) -> Visitor:
        """Open another page by its title; the page's own widgets lose their state."""
        kept = {widget.id for widget in self._widgets() if widget.in_sidebar}
        self._states = {key: state for key, state in self._states.items() if key in kept}
        self.page_hash = self.pages[page]
        return self._rerun("page")

    def set(self, widget: Widget, state: WidgetState) -> Visitor:
        """Set a widget's state, as a click would; the address changes with a widget that is bound
        to it.
        """
        self._states[widget.id] = state
        if key := widget.proto.query_param_key:
            self.query = urlencode({**parse_qs(self.query), key: _in_address(state)}, doseq=True)
        kind = "sidebar" if widget.in_sidebar else "control"
        return self._rerun(kind, fragment_id=widget.fragment)

    def press(self, label: str) -> Visitor:
        """Press the button of that label."""
        button = next(b for kind, b in self.elements if kind == "button" and b.label == label)
        return self._rerun("button", WidgetState(id=button.id, trigger_value=True))

    def change(self, rng: random.Random) -> bool:
        """Set a random widget to another random state; False if nothing can change."""
        widgets = self.widgets
        rng.shuffle(widgets)
        for widget in widgets:
            state = widget.other_state(rng, self._states.get(widget.id))
            if state is not None:
                self.set(widget, state)
                return True
        return False

    def _rerun(
        self, kind: str, *pressed: WidgetState, page_name: str = "", fragment_id: str = ""
    ) -> Visitor:
        """Request a rerun and read messages until its script has ended."""
        message = BackMsg()
        message.rerun_script.query_string = self.query
        message.rerun_script.widget_states.widgets.extend([*self._states.values(), *pressed])
        message.rerun_script.page_script_hash = self.page_hash
        message.rerun_script.page_name = page_name
        message.rerun_script.fragment_id = fragment_id
        message.rerun_script.cached_message_hashes.extend(self._cached)
        message.rerun_script.context_info.color_scheme = "light"
        began = time.perf_counter()
        self.socket.send(message.SerializeToString())
        shown, received = self._read_to_the_end()
        if fragment_id:
            old = {path: item for path, item in self._elements.items() if item[1] != fragment_id}
            shown = {**old, **shown}
        self._elements = shown
        present = {widget.id for widget in self._widgets()}
        self._states = {key: state for key, state in self._states.items() if key in present}
        seconds = time.perf_counter() - began
        self.reruns.append(Rerun(kind, self.page, seconds, received, tuple(_errors(shown))))
        return self

    def _read_to_the_end(self) -> tuple[dict[tuple[int, ...], tuple[Element, str]], int]:
        """The elements that a script draws with their fragments, and the bytes of all messages."""
        shown: dict[tuple[int, ...], tuple[Element, str]] = {}
        received = 0
        while True:
            frame = self.socket.recv(timeout=_PATIENCE_S, decode=False)
            received += len(frame)
            answer = ForwardMsg.FromString(frame)
            if answer.WhichOneof("type") == "script_finished":
                if answer.script_finished in _DONE:
                    return shown, received
                shown.clear()  # the script itself requested another rerun
            self._read(answer, shown)

    def _read(self, message: ForwardMsg, shown: dict[tuple[int, ...], tuple[Element, str]]) -> None:
        """Process one message: elements, the pages, the address."""
        if message.HasField("ref_hash"):
            known = self._cached[message.ref_hash]
            known.metadata.CopyFrom(message.metadata)
            message = known
        elif message.metadata.cacheable:
            self._cached[message.hash] = message
        kind = message.WhichOneof("type")
        if kind == "delta" and message.delta.WhichOneof("type") == "new_element":
            path = tuple(message.metadata.delta_path)
            shown[path] = (message.delta.new_element, message.delta.fragment_id)
            self._follow(message.delta.new_element)
        elif kind == "navigation":
            pages = [page for page in message.navigation.app_pages if not page.is_hidden]
            self.pages = {page.page_name: page.page_script_hash for page in pages}
            self.page_hash = message.navigation.page_script_hash
        elif kind == "page_info_changed":
            self.query = message.page_info_changed.query_string
        elif kind == "auth_redirect":
            self.redirect = message.auth_redirect.url

    def _follow(self, element: Element) -> None:
        """Store a value that the server gave to a widget."""
        kind = element.WhichOneof("type")
        if kind in CHOICES and getattr(element, kind).set_value:
            self._states.pop(getattr(element, kind).id, None)


@contextlib.contextmanager
def visit(url: str, cookies: Mapping[str, str] | None = None) -> Iterator[Visitor]:
    """A visitor on the server at `url` who has opened no page yet; the session ends with
    the block.
    """
    with urllib.request.urlopen(f"{url}/_stcore/health", timeout=60) as answer:
        name, _, xsrf = answer.headers["Set-Cookie"].partition(";")[0].partition("=")
    held = "; ".join(f"{key}={value}" for key, value in {**(cookies or {}), name: xsrf}.items())
    parts = urlsplit(url)
    with connect(
        url.replace("http", "ws", 1) + "/_stcore/stream",
        origin=f"{parts.scheme}://{parts.netloc}",
        subprotocols=["streamlit", xsrf],
        additional_headers={"Cookie": held},
        max_size=_MESSAGE_BYTES,
        open_timeout=_PATIENCE_S,
        ping_interval=None,
    ) as socket:
        yield Visitor(socket)


def _errors(shown: dict[tuple[int, ...], tuple[Element, str]]) -> Iterator[str]:
    for element, _ in shown.values():
        if element.WhichOneof("type") == "exception":
            yield f"{element.exception.type}: {element.exception.message}".splitlines()[0]


# ------------------------------------------------------------------------------- widgets


def _default(widget: Widget) -> WidgetState | None:
    """The initial state of a widget; None if it is not among its options."""
    proto = widget.proto
    if widget.kind == "selectbox":
        chosen = proto.raw_value or (proto.options[proto.default] if proto.options else "")
        return WidgetState(id=proto.id, string_value=chosen)
    if widget.kind == "number_input":
        return _number(proto, proto.value if proto.set_value else proto.default)
    if widget.kind == "text_input":
        return WidgetState(
            id=proto.id, string_value=proto.value if proto.set_value else proto.default
        )
    if widget.kind == "checkbox":
        return WidgetState(id=proto.id, bool_value=proto.default)
    if widget.kind == "slider" and proto.type == Slider.SLIDER:
        return _numbers(proto, proto.value if proto.set_value else proto.default)
    options = [option.content for option in proto.options] if widget.kind == "button_group" else (
        proto.options
    )  # fmt: skip
    chosen = proto.raw_values if widget.kind == "button_group" else proto.raw_value
    return _strings(proto, chosen or [options[int(at)] for at in proto.default])


def _in_address(state: WidgetState) -> list[str]:
    """A state as the values of a parameter of the address."""
    value = getattr(state, str(state.WhichOneof("value")))
    values = value.data if hasattr(value, "data") else [value]
    return [f"{v:g}" if isinstance(v, float) else str(v).lower() if isinstance(v, bool) else str(v)
            for v in values]  # fmt: skip


def _boxes(proto: Any) -> Iterator[WidgetState]:
    return (WidgetState(id=proto.id, string_value=option) for option in proto.options)


def _numbers_near(proto: NumberInput) -> Iterator[WidgetState]:
    now = proto.value if proto.set_value else proto.default
    whole = proto.data_type == NumberInput.INT
    for factor in (0.25, 0.5, 0.75, 1.25, 1.5, 2.0, 3.0):
        value = (now or proto.min or 1.0) * factor
        value = min(max(value, proto.min if proto.has_min else value), _most(proto, value))
        yield _number(proto, float(round(value)) if whole else round(value, 2))


def _texts_near(proto: TextInput) -> Iterator[WidgetState]:
    """Numbers near the one in a text box; none if it contains words."""
    text = proto.value if proto.set_value else proto.default
    if text.isdecimal() and int(text):
        for factor in (0.25, 0.5, 0.75, 1.25, 1.5, 2.0, 3.0):
            yield WidgetState(id=proto.id, string_value=str(max(round(int(text) * factor), 1)))


def _most(proto: NumberInput, value: float) -> float:
    return min(proto.max, 1e5) if proto.has_max else value


def _slides(proto: Slider) -> Iterator[WidgetState]:
    if proto.type == Slider.SELECT_SLIDER:
        yield from (_strings(proto, [option]) for option in proto.options)
        return
    steps = int((proto.max - proto.min) / proto.step + 1e-9)
    for at in range(0, steps + 1, max(steps // 16, 1)):
        yield _numbers(proto, [proto.min + at * proto.step])


def _buttons(proto: Any) -> Iterator[WidgetState]:
    return (_strings(proto, [option.content]) for option in proto.options)


def _checks(proto: Any) -> Iterator[WidgetState]:
    return (WidgetState(id=proto.id, bool_value=value) for value in (False, True))


def _number(proto: Any, value: float) -> WidgetState:
    return WidgetState(id=proto.id, double_value=value)


def _numbers(proto: Any, values: Sequence[float]) -> WidgetState:
    state = WidgetState(id=proto.id)
    state.double_array_value.data.extend(values)
    return state


def _strings(proto: Any, values: Sequence[str]) -> WidgetState:
    state = WidgetState(id=proto.id)
    state.string_array_value.data.extend(values)
    return state


_OTHERS = {
    "selectbox": _boxes,
    "number_input": _numbers_near,
    "text_input": _texts_near,
    "slider": _slides,
    "button_group": _buttons,
    "checkbox": _checks,
}

from __future__ import annotations

import msgspec
import pytest

from ecbench.core.errors import EcbenchError
from ecbench.kv_offload import FileRequest, HostLayout, load_model, requested_in
from ecbench.kv_offload.fuzzing import draw_request
from ecbench.kv_offload.request_file import describe_request, render_request


@pytest.mark.parametrize("number", range(60))
def test_a_drawn_request_comes_back_from_its_file(tmp_path, number):
    request = draw_request(7, number)
    path = tmp_path / "drawn.toml"
    path.write_text(render_request(request, 'A "title" with \\', ["a comment\nwith a line break"]))
    model, asked, settings = load_model(path), requested_in(path), request.settings
    assert model.groups == request.model.groups
    assert model.title == 'A "title" with \\'
    assert asked == FileRequest(
        tokens=request.tokens,
        retention_interval="none" if settings.retention_interval is None else settings.retention_interval,
        blocks_per_chunk=settings.blocks_per_chunk,
        prefix_match_unit=settings.prefix_match_unit,
        tensor_parallel=settings.tensor_parallel,
        host_layout=settings.host_layout,
        shared_prefix=request.shared_prefix,
        step_tokens=request.step_tokens,
    )


def test_one_line_says_what_is_not_plain():
    request = draw_request(7, 3)
    plain = msgspec.structs.replace(
        request,
        tokens=12,
        settings=msgspec.structs.replace(
            request.settings,
            retention_interval=None,
            blocks_per_chunk=1,
            prefix_match_unit=None,
            tensor_parallel=1,
            host_layout=HostLayout.PER_RANK,
        ),
        step_tokens=None,
        shared_prefix=None,
    )
    assert describe_request(plain).startswith("tokens 12, retention_interval none; ")
    assert "step_tokens 3" in describe_request(msgspec.structs.replace(plain, step_tokens=3))


def test_a_file_without_a_request_and_a_named_model_ask_for_nothing(tmp_path):
    request = draw_request(7, 0)
    text = render_request(request, "t")
    head, groups = text.split("[request]")[0], text[text.index("[[groups]]") :]
    path = tmp_path / "plain.toml"
    path.write_text(head + groups)
    assert requested_in(path) == requested_in("deepseek-v4-pro") == FileRequest()


@pytest.mark.parametrize(
    ("line", "told"),
    [
        ("token = 5", "token"),
        ("tokens = 0", "tokens"),
        ('retention_interval = "never"', "retention_interval"),
        ('host_layout = "everywhere"', "host_layout"),
    ],
)
def test_a_request_that_does_not_fit_is_refused_with_its_key(tmp_path, line, told):
    text = render_request(draw_request(7, 0), "t")
    path = tmp_path / "wrong.toml"
    path.write_text(f"{text.split('[request]')[0]}[request]\n{line}\n{text[text.index('[[groups]]') :]}")
    with pytest.raises(EcbenchError, match=told):
        requested_in(path)

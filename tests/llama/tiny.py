"""Writes a tiny GGUF: python3 tests/llama/tiny.py FILE

The model is a table: the next token depends on the last one only. Its weights are that table, behind one layer that adds
nothing, so llama.cpp loads and runs it like any other file of this architecture.

- After `<|assistant|>` it says "Hello from a tiny model." and ends.
- After `<|count|>`, which the template writes where the last message says "count", it counts and never ends.
- After `<|act|>`, which the template writes where there are tools and a user spoke last, it calls a tool.
- Held to a grammar it writes the shortest thing that fits; each of its strings is "ok" where the grammar allows that.
"""

import sys

import gguf
import numpy as np

TEMPLATE = (
    "{{ bos_token }}{% for message in messages %}<|{{ message.role }}|>{{ message.content }}"
    "{% for call in message.tool_calls %}<tool_call>{{ call.function | tojson }}</tool_call>{% endfor %}<|end|>"
    "{% endfor %}{% if tools %}{{ tools | tojson }}{% endif %}"
    "{% if tools and messages[-1].role == 'user' %}<|act|>"
    "{% elif 'count' in messages[-1].content %}<|count|>{% else %}<|assistant|>{% endif %}"
)
SENTENCE = ["Hello", "▁from", "▁a", "▁tiny", "▁model", "."]
COUNT = ["▁one", "▁two", "▁three", "▁four"]
CONTROLS = ["<|system|>", "<|user|>", "<|tool|>", "<|assistant|>", "<|count|>", "<|act|>", "<|end|>"]
CALLS = ["<tool_call>", "</tool_call>"]

Kind = gguf.TokenType
vocabulary = [("<unk>", Kind.UNKNOWN), ("<s>", Kind.CONTROL)]
vocabulary += [(f"<0x{byte:02X}>", Kind.BYTE) for byte in range(256)]
vocabulary += [("▁" if code == 32 else chr(code), Kind.NORMAL) for code in range(32, 127)]
vocabulary += [(word, Kind.NORMAL) for word in SENTENCE[:-1] + COUNT]
vocabulary += [(word, Kind.CONTROL) for word in CONTROLS]
vocabulary += [(word, Kind.USER_DEFINED) for word in CALLS]
number = {text: at for at, (text, _) in enumerate(vocabulary)}

width = -(-len(vocabulary) // 32) * 32
table = np.zeros((width, width), dtype=np.float32)  # table[next, last]
for rank, text in enumerate(reversed(["<|end|>", "}", "]", '"', ":", ",", "{", "["])):
    table[number[text], :] = 6 + rank
for rank, letter in enumerate("abcdefghijklmnopqrstuvwxyz0123456789"):
    table[number[letter], :] = 3 - rank / 20
for control in CONTROLS[:-1] + ["<unk>", "<s>"]:
    table[number[control], :] = -20


def then(last, following, weight=30.0):
    table[number[following], number[last]] = weight


for chain in (["<|assistant|>"] + SENTENCE + ["<|end|>"], ["<|count|>"] + COUNT + COUNT[:1]):
    for last, following in zip(chain, chain[1:]):
        then(last, following)
then("<|act|>", "<tool_call>")
then("</tool_call>", "<|end|>")
then('"', "o", 20.0)
then("o", "k", 20.0)
then("k", '"', 20.0)

out = gguf.GGUFWriter(sys.argv[1], "llama")
out.add_name("agon's tiny table")
out.add_context_length(131072)
out.add_embedding_length(width)
out.add_block_count(1)
out.add_feed_forward_length(32)
out.add_head_count(1)
out.add_key_length(32)
out.add_value_length(32)
out.add_rope_dimension_count(32)
out.add_layer_norm_rms_eps(1e-6)
out.add_tokenizer_model("llama")
out.add_token_list([text for text, _ in vocabulary])
out.add_token_scores([0.0] * len(vocabulary))
out.add_token_types([int(kind) for _, kind in vocabulary])
out.add_bos_token_id(number["<s>"])
out.add_eos_token_id(number["<|end|>"])
out.add_add_bos_token(True)
out.add_add_space_prefix(False)
out.add_chat_template(TEMPLATE)

zeros = lambda *shape: np.zeros(shape, dtype=np.float32)
ones = np.ones(width, dtype=np.float32)
size = len(vocabulary)
out.add_tensor("token_embd.weight", np.eye(size, width, dtype=np.float32))
out.add_tensor("output_norm.weight", ones)
out.add_tensor("output.weight", np.ascontiguousarray(table[:size, :] / np.sqrt(width), dtype=np.float32))
out.add_tensor("blk.0.attn_norm.weight", ones)
out.add_tensor("blk.0.ffn_norm.weight", ones)
for name in ("attn_q", "attn_k", "attn_v"):
    out.add_tensor(f"blk.0.{name}.weight", zeros(32, width))
out.add_tensor("blk.0.attn_output.weight", zeros(width, 32))
for name in ("ffn_gate", "ffn_up"):
    out.add_tensor(f"blk.0.{name}.weight", zeros(32, width))
out.add_tensor("blk.0.ffn_down.weight", zeros(width, 32))
out.write_header_to_file()
out.write_kv_data_to_file()
out.write_tensors_to_file()
out.close()

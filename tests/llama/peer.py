"""What llama-cpp-python answers greedily, as JSON: python3 peer.py FILE.gguf…"""

import json
import os
import sys

from llama_cpp import Llama

PROMPTS = ["say it", "count to twenty", "Name the planets, one a line. Größe: 3 €."]
MOST = 64

rows = []
for file in sys.argv[1:]:
    model = Llama(file, n_ctx=2048, n_threads=1, n_gpu_layers=0, verbose=False)
    for prompt in PROMPTS:
        asked = {
            "messages": [{"role": "user", "content": prompt}],
            "temperature": 0.0,
            "repeat_penalty": 1.0,
            "max_tokens": MOST,
        }
        stream = model.create_chat_completion(stream=True, **asked)
        deltas = [chunk["choices"][0]["delta"].get("content") for chunk in stream]
        whole = model.create_chat_completion(**asked)
        rows.append(
            {
                "file": os.path.abspath(file),
                "prompt": prompt,
                "most": MOST,
                "pieces": [piece for piece in deltas if piece],
                "text": whole["choices"][0]["message"]["content"],
                "finish": whole["choices"][0]["finish_reason"],
                "input": whole["usage"]["prompt_tokens"],
                "output": whole["usage"]["completion_tokens"],
            }
        )
json.dump(rows, sys.stdout)

//! The report of a run: something to hand to a colleague, with what was asked, answered, changed, allowed and spent.

use crate::support::env::Env;

const ANSWER: &str = "## Fixed\n\nThe loop ended **one** too early:\n\n```python\ndef total(rows):\n    for row in rows:\n        if row:\n            yield row\n```\n\n1. see [the page](https://example.org/x)\n2. ![p](https://example.org/p.png) <img src=x onerror=alert(1)>\n   - `a_b`\n\n| file | state |\n|---|---|\n| a.py | done |\n\n> quoted";

/// A run that edits a file, asks for what is not there, runs a command and answers in Markdown; two requests.
fn with_a_run() -> Env {
    let env = Env::new();
    env.config("model = \"mock/any\"\n[providers.mock]\nkind = \"script\"\nfile = \"mock.toml\"\n");
    let edit = "calls = [{ tool = \"read_file\", args = { path = \"a.py\" } }]\n\n[[answer]]\n\
        calls = [{ tool = \"edit_file\", args = { path = \"a.py\", edits = [{ old = \"one\", new = \"two\" }] } }]\n\n[[answer]]\n\
        calls = [{ tool = \"read_file\", args = { path = \"none.py\" } }, { tool = \"bash\", args = { command = \"echo '<b>ran</b>'\" } }]";
    env.write(
        "home/mock.toml",
        &format!("[[answer]]\n{edit}\n\n[[answer]]\ntext = {ANSWER:?}\n\n[[answer]]\ntext = \"Bye.\"\n"),
    );
    env.write("work/a.py", "def f():\n    return 'one'\n");
    let ran = env.run(&["run", "Fix the loop", "--yes", "--sandbox", "none"]);
    assert_eq!(ran.code, 0, "{ran}");
    let ran = env.run(&["run", "--resume", "latest", "go on", "--yes"]);
    assert_eq!(ran.code, 0, "{ran}");
    env
}

#[test]
fn the_markdown_of_a_run_can_be_pasted_and_its_code_runs() {
    let env = with_a_run();
    let page = env.run(&["report", "latest"]).stdout;
    for words in [
        "# Fix the loop\n",
        "\n**Fixed**\n",
        "ended **one** too early:",
        "```python\ndef total(rows):\n    for row in rows:\n        if row:\n            yield row\n```",
        "1. see the page (https://example.org/x)\n2. ",
        "\n   - `a_b`\n",
        "| file | state |\n|---|---|\n| a.py | done |",
        "> quoted",
        "```diff\n--- a/a.py\n+++ b/a.py\n",
        "-    return 'one'\n+    return 'two'\n",
        "- Changed: 1 file, +1 \u{2212}1",
        "- Tools: 4 calls, 1 without success",
        "- Approvals: 2 asked, given",
        "## Approvals",
        "| allowed once | \\--yes |",
        "<details><summary>read_file none.py ",
        "Rule `",
        "\n# go on\n",
        "| all |",
    ] {
        assert!(page.contains(words), "`{words}` is missing in\n{page}");
    }
    assert!(!page.contains(" <img") && !page.contains("](http"), "{page}");
}

#[test]
fn the_page_of_a_run_has_its_answer_set_and_nothing_leads_out() {
    let env = with_a_run();
    let page = env.run(&["report", "latest", "--format", "html"]).stdout;
    for words in [
        "<title>Fix the loop \u{2014} agon</title>",
        "<h4>Fixed</h4>",
        "<strong>one</strong>",
        "<pre>def total(rows):\n    for row in rows:\n        if row:\n            yield row</pre>",
        "<ol start=\"1\"><li>see the page<small> (https://example.org/x)</small></li>",
        "<span class=\"del\">-    return &#39;one&#39;\n</span><span class=\"add\">+    return &#39;two&#39;\n</span>",
        "<details><summary><strong>bash</strong> <code>echo &#39;&lt;b&gt;ran&lt;/b&gt;&#39;</code> ",
        "&lt;b&gt;ran&lt;/b&gt;\n",
        "<h2>Approvals</h2>",
    ] {
        assert!(page.contains(words), "`{words}` is missing in\n{page}");
    }
    for word in ["<img", "href=\"h", "<script", "<b>"] {
        assert!(!page.contains(word), "{word}");
    }
    assert_eq!(page.matches(" id=\"outcome\"").count(), 1, "an anchor is there once: {page}");
}

#[test]
fn lists_and_quotes_of_any_depth_are_written() {
    let env = Env::new();
    env.config("model = \"mock/any\"\n[providers.mock]\nkind = \"script\"\nfile = \"mock.toml\"\n");
    let deep = format!("{} deep\n\n{}- x", "> ".repeat(5_000), "- ".repeat(5_000));
    env.write("home/mock.toml", &format!("[[answer]]\ntext = {deep:?}\n"));
    assert_eq!(env.run(&["run", "Go", "--sandbox", "none"]).code, 0);
    for form in ["md", "html"] {
        let ran = env.run(&["report", "latest", "--format", form]);
        assert!(ran.code == 0 && ran.stdout.contains("deep") && ran.stdout.contains('x'), "{ran}");
    }
}

//! What the log keeps of an outcome: secrets replaced, long texts cut, the whole of a tool's output in a blob.

use crate::protocol::effect::Failure;
use crate::protocol::event::{
    BackgroundEnded, Blob, CheckRan, DiffTaken, GateAnswered, LinkPart, MentionExpanded, ModelFailed,
    ModelReply, ResultPart, ToolPrepared, ToolResolved, Verdict,
};
use crate::protocol::message::ImagePart;
use crate::protocol::text::cut_middle;
use crate::protocol::{Order, OutcomeBody};

use super::super::size_limits;
use super::Attempt;

impl Attempt {
    /// Secrets are replaced first, so that no cut splits one. (A tool that bounds its own lines or streams cuts before;
    /// a secret at such a cut may leave a part of itself.) What was ordered is what the order says, not its worker.
    pub(super) async fn recorded(&self, body: OutcomeBody) -> OutcomeBody {
        self.live.finish();
        let body = self.refined(body).await;
        match size_limits::excess(&body) {
            None => body,
            Some(words) => self.too_long(&body, words),
        }
    }

    /// A session whose log cannot take the answer to a call could never go on.
    fn too_long(&self, body: &OutcomeBody, words: String) -> OutcomeBody {
        let usage = match body {
            OutcomeBody::ModelAnswered(reply) => Some(reply.usage),
            OutcomeBody::ModelFailed(failed) => failed.usage,
            _ => None,
        };
        match self.order.failed(Failure::TooLong, words) {
            OutcomeBody::ModelFailed(failed) => {
                OutcomeBody::ModelFailed(ModelFailed { usage, waited_ms: self.waited_ms, ..failed })
            }
            other => other,
        }
    }

    async fn refined(&self, body: OutcomeBody) -> OutcomeBody {
        let waited_ms = self.waited_ms;
        match (body, &self.order) {
            (OutcomeBody::ModelAnswered(reply), _) => {
                OutcomeBody::ModelAnswered(ModelReply { waited_ms, ..reply })
            }
            (OutcomeBody::ModelFailed(failed), _) => {
                let said = Some(self.live.said()).filter(|said| !said.is_empty()).unwrap_or(failed.said);
                OutcomeBody::ModelFailed(ModelFailed { waited_ms, said: self.shown(&said), ..failed })
            }
            (OutcomeBody::ToolPrepared(prepared), Order::Prepare(order)) => {
                OutcomeBody::ToolPrepared(ToolPrepared { tool_use: order.tool_use, ..prepared })
            }
            // A verdict on anything else than what was ordered is none.
            (OutcomeBody::GateAnswered(answered), Order::Gate(order)) if answered.digest == order.digest => {
                let (tool_use, gate) = (order.tool_use, order.gate.clone());
                let verdict = match answered.verdict {
                    Verdict::Ask(why) => Verdict::Ask(self.shown(&why)),
                    Verdict::Deny(why) => Verdict::Deny(self.shown(&why)),
                    other => other,
                };
                OutcomeBody::GateAnswered(GateAnswered { tool_use, gate, verdict, ..answered })
            }
            (OutcomeBody::GateAnswered(_), order) => {
                order.failed(Failure::Broken, "the gate judged another call".to_owned())
            }
            (OutcomeBody::ToolResolved(end), Order::Tool(order)) => {
                let end = ToolResolved { tool_use: order.tool_use, by: None, ..end };
                OutcomeBody::ToolResolved(self.kept(end).await)
            }
            (OutcomeBody::BackgroundEnded(end), Order::Background(order)) => {
                let (output, notes) = (self.shown(&end.output), self.shared.redactor.lines(end.notes));
                let (tool_use, how) = (order.tool_use, self.shown(&end.how));
                OutcomeBody::BackgroundEnded(BackgroundEnded { tool_use, how, output, notes, ..end })
            }
            (OutcomeBody::CheckRan(ran), Order::Check(order)) => {
                let (command, notes) = (order.command.clone(), self.shared.redactor.lines(ran.notes));
                OutcomeBody::CheckRan(CheckRan { command, output: self.shown(&ran.output), notes, ..ran })
            }
            (OutcomeBody::DiffTaken(taken), _) => {
                OutcomeBody::DiffTaken(DiffTaken { diff: self.shown(&taken.diff), ..taken })
            }
            (OutcomeBody::MentionExpanded(read), _) => {
                let parts = read.parts.into_iter().map(|part| self.clean(part)).collect();
                OutcomeBody::MentionExpanded(MentionExpanded { text: self.shown(&read.text), parts, ..read })
            }
            (body, _) => body,
        }
    }

    fn shown(&self, text: &str) -> String {
        cut_middle(&self.shared.redactor.text(text), self.cap).0
    }

    async fn kept(&self, end: ToolResolved) -> ToolResolved {
        let whole = self.shared.redactor.text(&end.content);
        let (mut content, was_cut) = cut_middle(&whole, self.cap);
        let mut blob = None;
        if was_cut {
            let bytes = whole.len() as u64;
            match self.shared.ports.log.put_blob(whole.into_owned().into_bytes()).await {
                Ok(sha256) => blob = Some(Blob { sha256, bytes }),
                Err(error) => content.push_str(&format!("\n[the whole output could not be kept: {error}]")),
            }
        }
        let notes = self.shared.redactor.lines(end.notes);
        let parts = end.parts.into_iter().map(|part| self.clean(part)).collect();
        ToolResolved { content, blob, notes, parts, ..end }
    }

    /// The words of what came with a text. A picture's bytes are kept as they are.
    fn clean(&self, part: ResultPart) -> ResultPart {
        let text = |text: &str| self.shown(text);
        match part {
            ResultPart::Image(image) => ResultPart::Image(ImagePart { words: text(&image.words), ..image }),
            ResultPart::Link(link) => {
                ResultPart::Link(LinkPart { url: text(&link.url), title: text(&link.title) })
            }
            other @ ResultPart::Unknown(_) => other,
        }
    }
}

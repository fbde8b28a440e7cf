//! Chooses the next token, within a grammar where there is one.

use llama_cpp_2::context::LlamaContext;
use llama_cpp_2::model::LlamaModel;
use llama_cpp_2::sampling::LlamaSampler;
use llama_cpp_2::token::LlamaToken;
use llama_cpp_2::token::data::LlamaTokenData;
use llama_cpp_2::token::data_array::LlamaTokenDataArray;

use crate::provider::llama::grammar::Grammar;
use crate::provider::written_calls::BEGIN;

/// The same prompt gives the same answer: what was seen once can be looked at again.
const SEED: u32 = 0xA607;

/// How tokens are chosen.
pub(super) struct Sampling {
    chain: LlamaSampler,
    grammar: Option<LlamaSampler>,
    /// Begins to count with the first call.
    waiting: Option<LlamaSampler>,
    /// The end of what was written while a grammar waits.
    tail: String,
}

impl Sampling {
    /// Greedy at temperature 0; llama.cpp's usual choice where none is named.
    pub fn new(
        model: &LlamaModel,
        temperature: Option<f64>,
        grammar: Option<&Grammar>,
    ) -> Result<Self, String> {
        let chain = match temperature {
            Some(zero) if zero <= 0.0 => LlamaSampler::greedy(),
            temperature => LlamaSampler::chain_simple([
                LlamaSampler::top_k(40),
                LlamaSampler::top_p(0.95, 1),
                LlamaSampler::min_p(0.05, 1),
                LlamaSampler::temp(temperature.unwrap_or(0.8) as f32),
                LlamaSampler::dist(SEED),
            ]),
        };
        let made = grammar.map(|grammar| LlamaSampler::grammar(model, &grammar.text, "root")).transpose();
        let made = made.map_err(|error| format!("cannot hold an answer to its schema: {error}"))?;
        let is_lazy = grammar.is_some_and(|grammar| grammar.is_lazy);
        let (grammar, waiting) = if is_lazy { (None, made) } else { (made, None) };
        Ok(Sampling { chain, grammar, waiting, tail: String::new() })
    }

    /// The next token; none where the grammar allows none.
    pub fn next(&mut self, context: &LlamaContext<'_>) -> Option<LlamaToken> {
        let mut all = context.token_data_array();
        let Some(grammar) = &mut self.grammar else {
            all.apply_sampler(&mut self.chain);
            let token = all.selected_token()?;
            self.chain.accept(token);
            return Some(token);
        };
        // The whole vocabulary is held to the grammar only where the first choice is not in it.
        let mut free = all.clone();
        free.apply_sampler(&mut self.chain);
        let mut token = free.selected_token()?;
        if !allows(grammar, token) {
            all.apply_sampler(grammar);
            all.data.retain(|one| one.logit().is_finite());
            all.apply_sampler(&mut self.chain);
            token = all.selected_token()?;
        }
        grammar.try_accept(token).ok()?;
        self.chain.accept(token);
        Some(token)
    }

    /// Takes what a token wrote. Where a call begins in the middle of it, gives how many of its bytes are kept: the
    /// grammar speaks of what follows.
    pub fn wrote(&mut self, text: &str) -> Option<usize> {
        self.waiting.as_ref()?;
        let before = self.tail.len();
        self.tail.push_str(text);
        if let Some(at) = self.tail.find(BEGIN) {
            self.grammar = self.waiting.take();
            let kept = (at + BEGIN.len()).saturating_sub(before);
            // Blanks after it are allowed, and not counted.
            return (!text.get(kept..).unwrap_or_default().trim().is_empty()).then_some(kept);
        }
        let surplus = self.tail.len().saturating_sub(BEGIN.len());
        let surplus =
            (surplus..=self.tail.len()).find(|at| self.tail.is_char_boundary(*at)).unwrap_or_default();
        self.tail.drain(..surplus);
        None
    }
}

fn allows(grammar: &mut LlamaSampler, token: LlamaToken) -> bool {
    let mut one = LlamaTokenDataArray::new(vec![LlamaTokenData::new(token, 1.0, 0.0)], false);
    one.apply_sampler(grammar);
    one.data.first().is_some_and(|one| one.logit().is_finite())
}

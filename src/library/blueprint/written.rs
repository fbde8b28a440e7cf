//! A blueprint as it is written: each field is read by itself, so that no slip hides another; judges no meaning.

use std::ops::Range;

use serde::Deserialize;
use serde::de::IntoDeserializer as _;
use toml::Spanned;
use toml::de::{DeTable, DeValue};

use crate::protocol::blueprint::FaultAt;
use crate::protocol::complaint;
use crate::protocol::message::Effort;
use crate::protocol::spec::{Blueprint, RoleSpec};

/// What is written wrongly, and where.
pub(super) struct Slip {
    pub at: Range<usize>,
    pub words: String,
    /// A name that is not there, and those that are.
    pub meant: Option<(String, &'static [&'static str])>,
}

/// A blueprint as far as it could be read.
#[derive(Default)]
pub(super) struct Written {
    name: Option<String>,
    lead: Option<Spanned<String>>,
    pub read_only: bool,
    checks: Vec<Spanned<String>>,
    roles: Vec<WrittenRole>,
    /// True when something is called `role`, whatever it is.
    has_roles: bool,
    pub slips: Vec<Slip>,
}

#[derive(Default)]
struct WrittenRole {
    at: Range<usize>,
    name: Option<Spanned<String>>,
    persona: Option<Spanned<String>>,
    model: Option<Spanned<String>>,
    fallbacks: Option<Vec<Spanned<String>>>,
    tools: Option<Vec<Spanned<String>>>,
    effort: Option<Effort>,
    sandbox: Option<Spanned<String>>,
    read_only: bool,
    after: Vec<Spanned<String>>,
    revise: Vec<Spanned<String>>,
    revisions: Option<u32>,
    max_steps: Option<Spanned<u32>>,
}

const FIELDS: &[&str] = &["name", "lead", "read_only", "checks", "role"];
const ROLE_FIELDS: &[&str] = &[
    "name",
    "persona",
    "model",
    "fallbacks",
    "tools",
    "effort",
    "sandbox",
    "read_only",
    "after",
    "revise",
    "revisions",
    "max_steps",
];

/// How often a role may send another back when it does not say.
const REVISIONS: u32 = 2;

impl Written {
    /// Reads a text; the error is that it is no TOML at all.
    pub fn read(text: &str) -> Result<Self, toml::de::Error> {
        let (mut written, mut slips) = (Written::default(), Vec::new());
        let table = DeTable::parse(text)?;
        let has_name = has(table.get_ref(), "name");
        for (key, value) in table.into_inner() {
            match key.get_ref().as_ref() {
                "name" => written.name = field(value, &mut slips),
                "lead" => written.lead = field(value, &mut slips),
                "read_only" => written.read_only = field(value, &mut slips).unwrap_or_default(),
                "checks" => written.checks = field(value, &mut slips).unwrap_or_default(),
                "role" => {
                    written.has_roles = true;
                    written.roles = roles(value, &mut slips);
                }
                other => slips.push(unknown(key.span(), other, FIELDS)),
            }
        }
        if !has_name {
            slips.push(missing(0..0, "name"));
        }
        written.slips = slips;
        Ok(written)
    }

    /// True for what can be said of it though it could not be read whole: nothing that only follows from a slip.
    pub fn is_certain(&self, place: FaultAt) -> bool {
        let named = self.roles.iter().all(|role| role.name.is_some());
        match place {
            FaultAt::Whole => !self.has_roles,
            FaultAt::Name(i) => self.roles.get(i).is_none_or(|role| role.name.is_some()),
            FaultAt::Persona(i) => self.roles.get(i).is_none_or(|role| role.persona.is_some()),
            FaultAt::Lead | FaultAt::After(..) | FaultAt::Revise(..) => named,
            _ => true,
        }
    }

    /// Where a fault stands in the text.
    pub fn span(&self, place: FaultAt) -> Range<usize> {
        let role = |i: usize| self.roles.get(i);
        let one = |list: &[Spanned<String>], n: usize| list.get(n).map(Spanned::span);
        let own = |i: usize| role(i).map(|role| role.at.clone());
        let name = |i: usize| role(i)?.name.as_ref().map(Spanned::span);
        let found = match place {
            FaultAt::Whole => None,
            FaultAt::Lead => self.lead.as_ref().map(Spanned::span).or_else(|| name(0)).or_else(|| own(0)),
            FaultAt::Check(n) => one(&self.checks, n),
            FaultAt::Name(i) => name(i).or_else(|| own(i)),
            FaultAt::Persona(i) => role(i).and_then(|role| role.persona.as_ref()).map(Spanned::span),
            FaultAt::Model(i, n) => role(i).and_then(|role| {
                role.model.iter().chain(role.fallbacks.iter().flatten()).nth(n).map(Spanned::span)
            }),
            FaultAt::Steps(i) => role(i).and_then(|role| role.max_steps.as_ref()).map(Spanned::span),
            FaultAt::Sandbox(i) => role(i).and_then(|role| role.sandbox.as_ref()).map(Spanned::span),
            FaultAt::Tool(i, n) => role(i).and_then(|role| one(role.tools.as_deref()?, n)),
            FaultAt::After(i, n) => role(i).and_then(|role| one(&role.after, n)),
            FaultAt::Revise(i, n) => role(i).and_then(|role| one(&role.revise, n)),
        };
        found.unwrap_or(0..0)
    }

    pub fn to_blueprint(&self) -> Blueprint {
        Blueprint {
            name: self.name.clone().unwrap_or_default(),
            lead: self.lead.as_ref().map(|lead| lead.get_ref().clone()),
            roles: self.roles.iter().map(WrittenRole::to_role).collect(),
            checks: plain(&self.checks),
        }
    }
}

impl WrittenRole {
    fn to_role(&self) -> RoleSpec {
        let text = |field: &Option<Spanned<String>>| field.as_ref().map(|text| text.get_ref().clone());
        RoleSpec {
            name: text(&self.name).unwrap_or_default(),
            persona: text(&self.persona).unwrap_or_default(),
            model: text(&self.model),
            fallbacks: self.fallbacks.as_deref().map(plain),
            tools: self.tools.as_deref().map(plain),
            effort: self.effort,
            sandbox: text(&self.sandbox),
            read_only: self.read_only,
            after: plain(&self.after),
            revise: plain(&self.revise),
            revisions: self.revisions.unwrap_or(REVISIONS),
            max_steps: self.max_steps.as_ref().map(|max| *max.get_ref()),
        }
    }
}

fn roles(value: Spanned<DeValue<'_>>, slips: &mut Vec<Slip>) -> Vec<WrittenRole> {
    let at = value.span();
    match value.into_inner() {
        DeValue::Array(roles) => roles.into_iter().filter_map(|value| role(value, slips)).collect(),
        _ => {
            let words = "a role is written `[[role]]`, with two brackets on each side".to_owned();
            slips.push(Slip { at, words, meant: None });
            Vec::new()
        }
    }
}

fn role(value: Spanned<DeValue<'_>>, slips: &mut Vec<Slip>) -> Option<WrittenRole> {
    let at = value.span();
    let DeValue::Table(table) = value.into_inner() else {
        slips.push(Slip { at, words: "a role is a table".to_owned(), meant: None });
        return None;
    };
    for required in ["name", "persona"] {
        if !has(&table, required) {
            slips.push(missing(at.clone(), required));
        }
    }
    let mut role = WrittenRole { at, ..WrittenRole::default() };
    for (key, value) in table {
        match key.get_ref().as_ref() {
            "name" => role.name = field(value, slips),
            "persona" => role.persona = field(value, slips),
            "model" => role.model = field(value, slips),
            "fallbacks" => role.fallbacks = field(value, slips),
            "tools" => role.tools = field(value, slips),
            "effort" => role.effort = field(value, slips),
            "sandbox" => role.sandbox = field(value, slips),
            "read_only" => role.read_only = field(value, slips).unwrap_or_default(),
            "after" => role.after = field(value, slips).unwrap_or_default(),
            "revise" => role.revise = field(value, slips).unwrap_or_default(),
            "revisions" => role.revisions = field(value, slips),
            "max_steps" => role.max_steps = field(value, slips),
            other => slips.push(unknown(key.span(), other, ROLE_FIELDS)),
        }
    }
    Some(role)
}

/// A value of the kind its field has; one of another kind is a slip.
fn field<'i, T: Deserialize<'i>>(value: Spanned<DeValue<'i>>, slips: &mut Vec<Slip>) -> Option<T> {
    let at = value.span();
    let read = T::deserialize(value.into_deserializer());
    read.map_err(|error| {
        let at = error.span().unwrap_or(at);
        slips.push(Slip { at, words: complaint::plain(error.message()), meant: None });
    })
    .ok()
}

fn has(table: &DeTable<'_>, field: &str) -> bool {
    table.iter().any(|(key, _)| key.get_ref() == field)
}

fn missing(at: Range<usize>, field: &str) -> Slip {
    Slip { at, words: format!("`{field}` is missing"), meant: None }
}

fn unknown(at: Range<usize>, field: &str, known: &'static [&'static str]) -> Slip {
    Slip { at, words: format!("unknown field `{field}`"), meant: Some((field.to_owned(), known)) }
}

fn plain(names: &[Spanned<String>]) -> Vec<String> {
    names.iter().map(|name| name.get_ref().clone()).collect()
}

//! What the built-in tools share: schemas from Rust types, arguments back into them, blocking work set aside.

use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use schemars::JsonSchema;
use schemars::generate::SchemaSettings;
use serde::de::DeserializeOwned;
use serde_json::Value;
use tokio_util::sync::CancellationToken;

use crate::ports::{Files, RunContext, ToolEnd};
use crate::protocol::spec::{Risk, ToolSpec};

/// Bytes of output shown to a model.
const OUTPUT_CAP: u32 = 64 * 1024;

/// The spec of a built-in tool with arguments `A`. What only looks may be repeated.
pub fn spec<A: JsonSchema>(name: &str, description: &str, risk: Risk) -> ToolSpec {
    ToolSpec {
        name: name.to_owned(),
        description: description.to_owned(),
        schema: schema::<A>(),
        risk,
        repeatable: risk == Risk::Read,
        output_cap: OUTPUT_CAP,
    }
}

/// A schema in one piece, without the keywords that some providers refuse.
fn schema<A: JsonSchema>() -> Value {
    let settings = SchemaSettings::draft2020_12().with(|settings| {
        settings.inline_subschemas = true;
        settings.meta_schema = None;
    });
    let mut schema = settings.into_generator().into_root_schema_for::<A>().to_value();
    simplify(&mut schema, true);
    schema
}

/// Drops titles of types, the type's own description and the width of integers; they say nothing to a model.
fn simplify(schema: &mut Value, top: bool) {
    let Value::Object(fields) = schema else { return };
    fields.shift_remove("format");
    if fields.get("title").is_some_and(Value::is_string) {
        fields.shift_remove("title");
    }
    if top {
        fields.shift_remove("description");
    }
    if let Some(Value::Object(properties)) = fields.get_mut("properties") {
        properties.values_mut().for_each(|property| simplify(property, false));
    }
    if let Some(items) = fields.get_mut("items") {
        simplify(items, false);
    }
}

/// Reads arguments that were checked against the schema.
pub fn arguments<A: DeserializeOwned>(args: &Value) -> Result<A, String> {
    A::deserialize(args).map_err(|error| format!("the arguments do not fit: {error}"))
}

/// A run that works on the workspace's files, away from the async threads.
pub fn on_files(
    work: impl FnOnce(&dyn Files, &CancellationToken) -> Result<ToolEnd, String> + Send + 'static,
) -> impl for<'a> FnOnce(RunContext<'a>) -> BoxFuture<'a, ToolEnd> + Send + 'static {
    move |at: RunContext<'_>| {
        let (files, cancel) = (at.sandbox.files(), at.cancel.clone());
        blocking(move || work(&*files, &cancel)).map(|end| end.unwrap_or_else(ToolEnd::failed)).boxed()
    }
}

/// Runs work on files away from the async threads.
pub async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, String> + Send + 'static,
) -> Result<T, String> {
    match tokio::task::spawn_blocking(work).await {
        Ok(result) => result,
        Err(error) => Err(format!("the tool failed inside: {error}")),
    }
}

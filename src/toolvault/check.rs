//! Holds arguments against a tool's JSON Schema, and says in a model's terms what does not fit.

use jsonschema::Validator;
use serde_json::Value;

use crate::protocol::fit::Misfits;

/// Most complaints made at once.
const MOST: usize = 5;

/// A compiled schema, with the names it knows.
pub struct ArgumentCheck {
    validator: Validator,
    schema: Value,
}

impl ArgumentCheck {
    /// Compiles a schema, which must describe an object.
    pub fn compile(schema: &Value) -> Result<Self, String> {
        if schema.get("type").and_then(Value::as_str) != Some("object") {
            return Err("its `type` is not `object`".to_owned());
        }
        let validator = jsonschema::validator_for(schema).map_err(|error| error.to_string())?;
        Ok(ArgumentCheck { validator, schema: schema.clone() })
    }

    /// Accepts fitting arguments; else says which field is wrong and how.
    pub fn accept(&self, args: &Value) -> Result<(), String> {
        let told = Misfits { schema: &self.schema, whole: "the arguments", part: "field ", quotes: true };
        let complaints: Vec<String> =
            self.validator.iter_errors(args).take(MOST).map(|error| told.words(&error)).collect();
        match complaints.is_empty() {
            true => Ok(()),
            false => Err(format!("the arguments do not fit: {}", complaints.join("; "))),
        }
    }
}

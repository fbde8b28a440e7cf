//! Makes values that fit a JSON Schema from a seed, so that every event kind is tried without a list by hand.

use serde_json::{Map, Number, Value};

/// A source of values for one schema; the same seed gives the same values.
pub struct Samples<'a> {
    root: &'a Value,
    state: u64,
    depth: u32,
}

/// Follows `$ref` to the definition it names.
pub fn resolved<'a>(root: &'a Value, schema: &'a Value) -> &'a Value {
    match schema.get("$ref").and_then(Value::as_str) {
        Some(pointer) => resolved(root, root.pointer(pointer.trim_start_matches('#')).unwrap()),
        None => schema,
    }
}

impl<'a> Samples<'a> {
    pub fn new(root: &'a Value, seed: u64) -> Self {
        Samples { root, state: seed, depth: 0 }
    }

    /// The next number of a splitmix64 sequence.
    fn next(&mut self) -> u64 {
        self.state = self.state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.state;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    fn below(&mut self, n: usize) -> usize {
        usize::try_from(self.next() % n as u64).unwrap()
    }

    /// A value that fits `schema`.
    pub fn value(&mut self, schema: &'a Value) -> Value {
        let schema = resolved(self.root, schema);
        if let Some(constant) = schema.get("const") {
            return constant.clone();
        }
        for key in ["enum", "oneOf", "anyOf"] {
            if let Some(choices) = schema.get(key).and_then(Value::as_array) {
                let choice = &choices[self.below(choices.len())];
                return if key == "enum" { choice.clone() } else { self.value(choice) };
            }
        }
        match &schema["type"] {
            Value::String(one) => self.typed(one, schema),
            Value::Array(several) => {
                let pick = several[self.below(several.len())].as_str().unwrap();
                self.typed(pick, schema)
            }
            _ => self.anything(),
        }
    }

    fn typed(&mut self, name: &str, schema: &'a Value) -> Value {
        match name {
            "null" => Value::Null,
            "boolean" => Value::Bool(self.below(2) == 0),
            "integer" => self.integer(schema),
            "string" => self.string(schema),
            "array" => self.array(schema),
            "object" => self.object(schema),
            other => panic!("this test knows no type `{other}`: {schema}"),
        }
    }

    fn integer(&mut self, schema: &Value) -> Value {
        let (low, high) = match schema["format"].as_str() {
            Some("uint8") => (0, i128::from(u8::MAX)),
            Some("uint16") => (0, i128::from(u16::MAX)),
            Some("uint32") => (0, i128::from(u32::MAX)),
            Some("uint64") => (0, i128::from(u64::MAX)),
            Some("int8") => (i128::from(i8::MIN), i128::from(i8::MAX)),
            Some("int32") => (i128::from(i32::MIN), i128::from(i32::MAX)),
            other => panic!("this test knows no integer `{other:?}`: {schema}"),
        };
        let value = match self.below(4) {
            0 => low,
            1 => high,
            _ => low + i128::from(self.next()) % (high - low + 1),
        };
        Value::Number(value.to_string().parse::<Number>().unwrap())
    }

    fn string(&mut self, schema: &Value) -> Value {
        if schema["pattern"] == "^e[0-9]+(\\.[0-9]+)?$" {
            let (seq, i) = (self.next() >> 16, self.below(3));
            return Value::String(if i == 0 { format!("e{seq}") } else { format!("e{seq}.{i}") });
        }
        assert!(schema.get("pattern").is_none(), "this test knows no pattern like that of {schema}");
        let words =
            ["", "plain", "zwei\nZeilen", "\"quoted\" \\ back", "\u{0}\u{1b}[31m\u{7f}", "漢字 🦀 e\u{301}"];
        Value::String(words[self.below(words.len())].to_owned())
    }

    fn array(&mut self, schema: &'a Value) -> Value {
        if let Some(items) = schema.get("prefixItems").and_then(Value::as_array) {
            return items.iter().map(|item| self.value(item)).collect();
        }
        let len = self.below(3);
        (0..len).map(|_| self.value(&schema["items"])).collect()
    }

    /// All required properties and, by chance, the others.
    fn object(&mut self, schema: &'a Value) -> Value {
        let required = schema["required"].as_array();
        let mut object = Map::new();
        for (name, property) in schema["properties"].as_object().into_iter().flatten() {
            let must = required.is_some_and(|names| names.iter().any(|n| n == name));
            if must || self.below(2) == 0 {
                object.insert(name.clone(), self.value(property));
            }
        }
        Value::Object(object)
    }

    /// JSON of somebody else: numbers whose text matters, keys in an order that matters.
    fn anything(&mut self) -> Value {
        self.depth += 1;
        let choice = if self.depth > 3 { self.below(4) } else { self.below(6) };
        let value = match choice {
            0 => Value::Bool(true),
            1 => Value::String("z".to_owned()),
            2 => {
                let texts = ["0", "-1", "1.50", "1e+400", "123456789012345678901234567890", "-0.0"];
                serde_json::from_str(texts[self.below(texts.len())]).unwrap()
            }
            3 => Value::Object(Map::new()),
            4 => (0..self.below(3)).map(|_| self.anything()).collect(),
            _ => ["z", "a", "m"].iter().map(|key| ((*key).to_owned(), self.anything())).collect(),
        };
        self.depth -= 1;
        value
    }
}

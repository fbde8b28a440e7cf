//! Gathers the models that the list on the screen offers.

use std::sync::Arc;

use crate::cli::models::{about, replaced};
use crate::config::{Config, ModelName};
use crate::host::offers;
use crate::tui::{ModelRow, Msg};

use super::controller::{Done, Mission};

impl Mission {
    /// Asks for the list while the screen goes on.
    pub(super) fn list_models(&self) {
        let kit = Arc::clone(&self.kit);
        self.pending.push(Box::pin(async move { Done::News(models(&kit.config).await) }));
    }
}

/// Asks every provider within reach; what one of them refuses is said next to what the others list.
async fn models(config: &Config) -> Vec<Msg> {
    let offers = offers::offers(config, None).await;
    let (mut rows, mut notes) = (Vec::new(), Vec::new());
    for offer in &offers {
        notes.extend(offer.models.as_ref().err().cloned());
        notes.extend(replaced(offer, config));
        for model in offer.chats() {
            let name = ModelName { provider: offer.provider.clone(), model: model.id.clone() };
            let known = offers::facts(config, &name, Some(model));
            let about = known.map(|facts| about(&facts)).unwrap_or_default();
            rows.push(ModelRow { name: name.to_string(), about });
        }
    }
    let mut news = vec![Msg::Models(rows)];
    if !notes.is_empty() {
        news.push(Msg::Log(notes.join("; ")));
    }
    news
}

//! What the commands of a session see, and who mounts what of it: decided once, by the first that needs it.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::sync::{Arc, LazyLock};

use super::fs_layout::{self, FsLayout};
use super::held::Split;
use super::kept_back::Packages;
use super::plan::HeldPlan;
use super::session_holder;
use super::{git, tmp};
use crate::sandbox::LocalOptions;
use crate::sandbox::proxy::origins::Origins;

/// A view that is made when it is needed: the folders that are shown have to be searched for it.
pub type LazyView = LazyLock<View, Box<dyn FnOnce() -> View + Send>>;

/// What commands see, and who mounts what of it.
pub struct View {
    pub layout: FsLayout,
    pub split: Split,
    pub held: HeldPlan,
    pub packages: Arc<Packages>,
    /// Where the user's tools get packages from.
    pub origins: Arc<Origins>,
}

impl View {
    /// The view on a workspace with temporary files in `scratch`; without namespaces only what rules can say of it.
    pub fn lazy(
        (root, scratch): (&Path, &Path),
        options: &LocalOptions,
        has_namespaces: bool,
        filters: Vec<Vec<[u32; 4]>>,
    ) -> LazyView {
        let (root, scratch, options) = (root.to_owned(), scratch.to_owned(), options.clone());
        LazyLock::new(Box::new(move || {
            let variable = |name: &str| std::env::var_os(name);
            let seen = FsLayout::of(&root, &scratch, (options.read_only, &options.own), &variable);
            let home = std::env::var_os("HOME").map(PathBuf::from);
            let origins = Origins::of(home.as_deref(), &variable);
            let (readable, mut layout) = match has_namespaces {
                true => (vec![OsString::from("/")], seen),
                false => seen.of_rules(&root, &scratch, options.read_only),
            };
            for (name, value) in origins.settings().iter().filter(|_| has_namespaces) {
                layout.environment.entry(name.clone()).or_insert_with(|| value.clone());
            }
            // Where a layer cannot be made, what is under it is shown read-only.
            for folder in layout.layers(&scratch) {
                let _ = std::fs::create_dir_all(folder);
            }
            let settings = scratch.join(tmp::SETTINGS);
            let seen_at = if has_namespaces { Path::new(fs_layout::SETTINGS) } else { &settings };
            git::settings::write(&root, &settings, seen_at, &mut layout.environment);
            let split = Split::of(&layout.mounts, &root);
            let held = HeldPlan {
                has_namespaces,
                is_single: false,
                base: scratch.join("root").into_os_string(),
                mounts: split.held.clone(),
                points: split.points.clone(),
                readable,
                writable: layout.writable.clone(),
                shell: session_holder::shell(layout.environment.get("PATH")),
                environment: layout.environment.clone(),
                filters,
                limits: options.limits.clone(),
            };
            let packages = Packages::of(&layout.packages);
            View { layout, split, held, packages, origins: Arc::new(origins) }
        }))
    }
}

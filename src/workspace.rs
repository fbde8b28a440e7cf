//! Records the workspace's content so that forks, diffs and fingerprints can use it.

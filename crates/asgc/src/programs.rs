//! Finds the daemons' programs: beside this one, else on `PATH`.

use anyhow::{Result, bail};
use std::ffi::OsStr;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

/// The path of `name`.
pub(crate) fn find(name: &str) -> Result<PathBuf> {
    let beside = std::env::current_exe()
        .ok()
        .and_then(|exe| exe.parent().map(Path::to_owned));
    find_in(name, beside.as_deref(), std::env::var_os("PATH").as_deref())
}

fn find_in(name: &str, beside: Option<&Path>, path: Option<&OsStr>) -> Result<PathBuf> {
    let on_path = path.map(std::env::split_paths).into_iter().flatten();
    let mut candidates = beside
        .map(Path::to_owned)
        .into_iter()
        .chain(on_path)
        .map(|dir| dir.join(name));
    match candidates.find(|candidate| is_program(candidate)) {
        Some(found) => Ok(found),
        None => bail!(
            "{name} is neither beside asgc{} nor on PATH; build it with `cargo build --release -p {name}`",
            beside
                .map(|dir| format!(" in {}", dir.display()))
                .unwrap_or_default()
        ),
    }
}

fn is_program(path: &Path) -> bool {
    path.metadata()
        .is_ok_and(|meta| meta.is_file() && meta.permissions().mode() & 0o111 != 0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    #[test]
    fn beside_comes_before_path_and_absence_names_what_to_build() {
        let (here, there) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let find = || find_in("asgc-server", Some(here.path()), Some(there.path().as_os_str()));
        let place = |dir: &Path, mode| {
            fs::write(dir.join("asgc-server"), "").unwrap();
            fs::set_permissions(dir.join("asgc-server"), fs::Permissions::from_mode(mode)).unwrap();
        };
        let error = find().unwrap_err().to_string();
        let expect = format!(
            "asgc-server is neither beside asgc in {} nor on PATH; build it with `cargo build --release -p asgc-server`",
            here.path().display()
        );
        assert_eq!(error, expect);
        place(there.path(), 0o644);
        assert!(find().is_err(), "not executable");
        place(there.path(), 0o755);
        assert_eq!(find().unwrap(), there.path().join("asgc-server"));
        place(here.path(), 0o755);
        assert_eq!(find().unwrap(), here.path().join("asgc-server"));
    }
}

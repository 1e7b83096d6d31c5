//! Which cores servers and generator run on. Pure, except that it asks the kernel which cores there are.

use anyhow::{Result, bail};
use rustix::thread::{CpuSet, sched_getaffinity};

use super::lab::Lab;
use super::results::Placement;

/// With fewer cores than these a core of its own for the generator would take too much from the servers.
const ENOUGH: usize = 4;

/// The cores that this process may use, ascending.
pub(super) fn usable() -> Vec<usize> {
    let set = sched_getaffinity(None).unwrap_or_default();
    (0..CpuSet::MAX_CPU)
        .filter(|core| set.is_set(*core))
        .collect()
}

/// Whether the cores that `lab` names are among the `usable` ones.
///
/// # Errors
/// One is not; names it.
pub(super) fn check(lab: &Lab, usable: &[usize]) -> Result<()> {
    for (key, cores) in [
        ("server_cores", &lab.server_cores),
        ("generator_cores", &lab.generator_cores),
    ] {
        if let Some(core) = cores.iter().find(|core| !usable.contains(core)) {
            let usable: Vec<String> = usable.iter().map(ToString::to_string).collect();
            bail!(
                "{key}: {core} is no core that can be used here; these can: {}",
                usable.join(", ")
            );
        }
    }
    Ok(())
}

/// What `lab` says, or a division of the `usable` cores: a quarter for the generator where there are enough, none where
/// there are few.
pub(super) fn place(lab: &Lab, usable: &[usize]) -> Placement {
    if !lab.server_cores.is_empty() {
        return Placement {
            server: lab.server_cores.clone(),
            generator: lab.generator_cores.clone(),
        };
    }
    if usable.len() < ENOUGH {
        return Placement::default();
    }
    let (server, generator) = usable.split_at(usable.len() - usable.len() / ENOUGH);
    Placement {
        server: server.to_vec(),
        generator: generator.to_vec(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn four_cores_are_divided_and_fewer_are_shared() {
        let check = |usable: &[usize], server: &[usize], generator: &[usize]| {
            let placement = place(&Lab::default(), usable);
            assert_eq!(
                (placement.server.as_slice(), placement.generator.as_slice()),
                (server, generator)
            );
        };
        check(&[0, 1], &[], &[]);
        check(&[0, 1, 2], &[], &[]);
        check(&[0, 1, 2, 3], &[0, 1, 2], &[3]);
        check(&[4, 5, 6, 7, 8, 9, 10, 11], &[4, 5, 6, 7, 8, 9], &[10, 11]);
    }

    #[test]
    fn named_cores_win() {
        let lab = Lab {
            server_cores: vec![0],
            generator_cores: vec![1],
            ..Lab::default()
        };
        assert_eq!(place(&lab, &[0, 1, 2, 3]).server, [0]);
        check(&lab, &[0, 1]).unwrap();
    }

    #[test]
    fn a_core_that_can_not_be_used_is_named() {
        let lab = |server: usize, generator: usize| Lab {
            server_cores: vec![2, server],
            generator_cores: vec![generator],
            ..Lab::default()
        };
        let message = |lab: Lab| check(&lab, &[2, 3]).unwrap_err().to_string();
        let rest = "is no core that can be used here; these can: 2, 3";
        assert_eq!(message(lab(77, 2)), format!("server_cores: 77 {rest}"));
        assert_eq!(message(lab(3, 0)), format!("generator_cores: 0 {rest}"));
        check(&lab(3, 2), &[2, 3]).unwrap();
    }

    #[test]
    fn this_machine_has_a_core() {
        assert!(!usable().is_empty());
    }
}

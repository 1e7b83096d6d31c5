//! What spans say of the application and its server: attributes of a resource (OpenTelemetry, Resource semantic conventions).
//! Only what is true: nothing is guessed.

use crate::value::Value;
use crate::variables::{Variables, percent_decoded};

/// The name of a service that nobody named, as the specification wants it.
const UNKNOWN_SERVICE: &str = "unknown_service:highball";
/// The variable that names the service.
const SERVICE_NAME: &str = "OTEL_SERVICE_NAME";
/// The variable with further attributes.
const ATTRIBUTES: &str = "OTEL_RESOURCE_ATTRIBUTES";

/// The attributes of a resource.
#[derive(Clone, Debug, PartialEq)]
pub struct Resource {
    pub(crate) attributes: Vec<(String, Value)>,
}

/// `OTEL_RESOURCE_ATTRIBUTES` cannot be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "OTEL_RESOURCE_ATTRIBUTES is ignored: write NAME=VALUE pairs with commas between them, and %2C, %3D or %25 for a comma, an \
     equals sign or a percent sign in a value"
)]
pub struct ResourceError;

impl Resource {
    /// Returns the resource of an application. The name that the settings give it wins over the variables, and these over the
    /// name of one of several applications; the release wins over a version in the variables. `host` is the machine's name.
    ///
    /// # Errors
    /// The variable with attributes cannot be read: the resource without those of it.
    pub fn new(
        service: Option<&str>,
        application: Option<&str>,
        release: Option<&str>,
        host: &str,
        variables: &Variables<'_>,
    ) -> Result<Self, (Self, ResourceError)> {
        let text = |text: &str| Value::Text(text.to_owned());
        let mut resource = Self {
            attributes: vec![
                ("service.name".to_owned(), text(UNKNOWN_SERVICE)),
                ("host.name".to_owned(), text(host)),
                (
                    "process.pid".to_owned(),
                    Value::Number(std::process::id().into()),
                ),
            ],
        };
        let given = variables(ATTRIBUTES).map(|list| pairs(&list));
        let is_readable = !matches!(given, Some(None));
        for (name, value) in given.flatten().unwrap_or_default() {
            resource.set(&name, &value);
        }
        // The variable names one service.
        let named = variables(SERVICE_NAME).filter(|_| application.is_none());
        for name in [application, named.as_deref(), service]
            .into_iter()
            .flatten()
        {
            resource.set("service.name", name);
        }
        if let Some(release) = release {
            resource.set("service.version", release);
        }
        match is_readable {
            true => Ok(resource),
            false => Err((resource, ResourceError)),
        }
    }

    fn set(&mut self, name: &str, value: &str) {
        let value = Value::Text(value.to_owned());
        match self.attributes.iter_mut().find(|(known, _)| known == name) {
            Some((_, known)) => *known = value,
            None => self.attributes.push((name.to_owned(), value)),
        }
    }
}

/// The pairs of a list such as `a=1,b=2`; none if any of them is wrong: then nothing of it counts, as the specification says.
fn pairs(list: &str) -> Option<Vec<(String, String)>> {
    let items = list.split(',').map(str::trim);
    let pairs = items.filter(|item| !item.is_empty()).map(|item| {
        let (name, value) = item.split_once('=')?;
        let (name, value) = (name.trim(), percent_decoded(value.trim())?);
        (!name.is_empty()).then_some((name.to_owned(), value))
    });
    pairs.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn attributes(
        service: Option<&str>,
        application: Option<&str>,
        variables: &[(&str, &str)],
    ) -> Vec<(String, String)> {
        let find = |name: &str| {
            let found = variables.iter().find(|(known, _)| *known == name);
            found.map(|(_, value)| (*value).to_owned())
        };
        let resource = Resource::new(service, application, None, "web1", &find);
        let (Ok(resource) | Err((resource, _))) = resource;
        let text = |value: &Value| match value {
            Value::Text(text) => text.clone(),
            other => format!("{other:?}"),
        };
        let all = resource.attributes.iter();
        all.map(|(name, value)| (name.clone(), text(value)))
            .collect()
    }

    fn name(
        service: Option<&str>,
        application: Option<&str>,
        variables: &[(&str, &str)],
    ) -> String {
        attributes(service, application, variables)[0].1.clone()
    }

    #[test]
    fn the_setting_names_the_service_before_the_variables() {
        let list = ("OTEL_RESOURCE_ATTRIBUTES", "service.name=listed");
        let named = ("OTEL_SERVICE_NAME", "named");
        assert_eq!(name(None, None, &[]), "unknown_service:highball");
        assert_eq!(name(None, None, &[list]), "listed");
        assert_eq!(name(None, None, &[list, named]), "named");
        assert_eq!(name(None, Some("shop"), &[list, named]), "shop");
        assert_eq!(name(Some("set"), Some("shop"), &[list, named]), "set");
    }

    #[test]
    fn attributes_come_from_the_variable() {
        let list = (
            "OTEL_RESOURCE_ATTRIBUTES",
            " deployment.environment.name=prod, team=a%2Cb%20c,,host.name=edge ",
        );
        let all = attributes(None, None, &[list]);
        let has = |name: &str, value: &str| all.contains(&(name.to_owned(), value.to_owned()));
        assert!(has("deployment.environment.name", "prod") && has("team", "a,b c"));
        assert!(has("host.name", "edge"), "{all:?}");
    }

    #[test]
    fn a_wrong_list_of_attributes_is_ignored_whole() {
        for list in ["a=1,b", "=x", "a=%", "a=%4", "a=%zz", "a=%ff"] {
            let find = |name: &str| (name == ATTRIBUTES).then(|| list.to_owned());
            let (resource, _) = Resource::new(None, None, Some("v1"), "h", &find).unwrap_err();
            let names: Vec<_> = resource
                .attributes
                .iter()
                .map(|(name, _)| &**name)
                .collect();
            let expected = [
                "service.name",
                "host.name",
                "process.pid",
                "service.version",
            ];
            assert_eq!(names, expected, "{list}");
        }
    }
}

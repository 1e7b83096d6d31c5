//! The macro that makes a struct, a list of descriptions and conversions out of the table of settings. What stands in the
//! table is `table.rs`, whose imports it uses.

macro_rules! settings {
    ($($category:literal {
        $(
            $(#[doc = $doc:literal])+
            $name:ident: $type:ty = $kind:expr, default $default:literal
                $(, development $development:literal)? $(, env $env:expr)? $(, reload $reload:ident)? $(, scope $scope:ident)?;
        )+
    })+) => {
        /// Every setting, typed, checked and resolved. Field names are the names of the table.
        #[derive(Clone, Debug, PartialEq)]
        pub struct Settings {
            $($(
                $(#[doc = $doc])+
                pub $name: $type,
            )+)+
            /// Where each value came from, in the order of [`SETTINGS`].
            pub origins: Vec<Origin>,
            /// Mistakes that are no errors, in sentences, such as variables that no setting has.
            pub warnings: Vec<String>,
            /// What else there is to know about the sources, in sentences.
            pub notes: Vec<String>,
        }

        /// The table of settings, in the order of the documentation.
        pub static SETTINGS: &[Setting] = &[
            $($(Setting {
                name: stringify!($name),
                kind: $kind,
                default: $default,
                development: settings!(@development $($development)?),
                shared_variables: settings!(@env $($env)?),
                reload: settings!(@reload $($reload)?),
                scope: settings!(@scope $($scope)?),
                category: $category,
                doc: &[$($doc),+],
            },)+)+
        ];

        impl Settings {
            /// Builds the struct from one checked value and origin per setting, in the table's order.
            pub(crate) fn from_values(values: Vec<(Value, Origin)>) -> Self {
                let (values, origins): (Vec<_>, Vec<_>) = values.into_iter().unzip();
                let mut values = values.into_iter();
                Self {
                    $($($name: <$type>::from_value(values.next().expect("one value per setting")),)+)+
                    origins,
                    warnings: Vec::new(),
                    notes: Vec::new(),
                }
            }

            /// The values as they are now, in the table's order.
            pub(crate) fn values(&self) -> Vec<Value> {
                vec![$($(self.$name.to_value(),)+)+]
            }
        }
    };
    (@development) => { None };
    (@development $default:literal) => { Some($default) };
    (@env) => { &[] };
    (@env $env:expr) => { &$env };
    (@reload) => { Reload::Generation };
    (@reload $reload:ident) => { Reload::$reload };
    (@scope) => { Scope::Application };
    (@scope $scope:ident) => { Scope::$scope };
}

pub(crate) use settings;

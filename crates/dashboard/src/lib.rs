//! The dashboard: live figures of a server, and the page that shows them. Pure: it opens no socket, reads no clock and no
//! file, and knows nothing of front, supervisor and workers. The program fills a [`Model`] and sends what [`page()`] returns.

mod chart;
mod model;
mod page;
mod resource;
mod series;
mod text;
mod view;

pub use model::opened::{
    ExceptionCause, ExceptionSample, Opened, OpenedException, OpenedSlowRequest, TraceLine,
};
pub use model::{
    Application, Cache, Certificate, ExceptionGroup, Mark, Model, Queue, Route, Server,
    SlowRequest, Thread, Worker,
};
pub use page::{PageError, live, login, page, token_of_form};
pub use resource::{FLAME_POLICY, HEADERS, Resource, resource};
pub use series::recorder::Recorder;
pub use series::saved::{DamagedHistory, Saved};
pub use series::{Bucket, Measured, Point, Reading, STEP_S, Series, percentile};
pub use view::{Alone, Period, RouteOrder, View};

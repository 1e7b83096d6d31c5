//! Made-up servers: one under load, one that nobody has asked anything, and many applications with awkward names.

use dashboard::{
    Application, Bucket, Cache, Certificate, ExceptionCause, ExceptionGroup, ExceptionSample, Mark,
    Measured, Model, Opened, OpenedException, OpenedSlowRequest, Point, Queue, Route, Server,
    SlowRequest, Thread, TraceLine, Worker,
};

/// The time of all of them.
pub(crate) const NOW: u64 = 1_795_417_392;
/// What must never get into a page as it is.
pub(crate) const HOSTILE: &str =
    "<script>alert(1)</script>\"'><img src=x onerror=alert(2)>\u{202e}\u{1b}[31m{{ 7*7 }}";

/// A server with one application under load, 200 routes, exceptions and slow requests.
pub(crate) fn busy() -> Model {
    let application = shop("shop");
    Model {
        measured: application.measured.clone(),
        outcomes: application.outcomes.clone(),
        responses: application.responses.clone(),
        applications: vec![application],
        marks: vec![
            mark(50_000, "deploy a41f0c2: generation 2 serves after 14 s"),
            mark(412, "deploy 9be2d11: generation 3 serves after 12 s"),
            mark(
                95,
                "worker 1 replaced: private memory 333.0 MiB exceeds worker_max_memory 300.0 MiB",
            ),
        ],
        certificates: vec![
            Certificate {
                names: vec!["shop.example.com".into(), "www.shop.example.com".into()],
                ends: "2027-01-30".into(),
                warning: None,
            },
            Certificate {
                names: vec!["old.example.com".into()],
                ends: "2026-11-30".into(),
                warning: Some("it ends in 7 days, on 2026-11-30".into()),
            },
        ],
        ..server()
    }
}

/// A server that has just started.
pub(crate) fn empty() -> Model {
    Model {
        applications: vec![Application {
            name: "app".into(),
            queue: Queue {
                limit: 256,
                ..Queue::default()
            },
            ..Application::default()
        }],
        ..server()
    }
}

/// One worker of one thread, a single point, and hostile texts wherever a text can be.
pub(crate) fn hostile() -> Model {
    let text = || HOSTILE.to_owned();
    let mut application = shop(HOSTILE);
    application.hosts = vec![text()];
    application.workers.truncate(1);
    application.workers[0].state = text();
    application.workers[0].threads = vec![Thread {
        state: "running".into(),
        request: Some(format!("GET /{HOSTILE}")),
        ..Thread::default()
    }];
    application.routes = vec![Route {
        name: text(),
        count: 1,
        ..Route::default()
    }];
    application.exceptions = vec![ExceptionGroup {
        id: text(),
        class: text(),
        message: text(),
        location: text(),
        release: Some(text()),
        ..ExceptionGroup::default()
    }];
    application.slow = vec![SlowRequest {
        key: text(),
        id: Some(text()),
        request: text(),
        route: Some(text()),
        outcome: text(),
        ..SlowRequest::default()
    }];
    application.measured.recent.truncate(1);
    application.outcomes = [(text(), 3)].into();
    application.responses = [(text(), 3)].into();
    let mut second = application.clone();
    second.name = "second".into();
    let mut model = Model {
        marks: vec![Mark {
            at: NOW,
            text: text(),
            application: Some(text()),
        }],
        certificates: vec![Certificate {
            names: vec![text()],
            ends: text(),
            warning: Some(text()),
        }],
        outcomes: application.outcomes.clone(),
        applications: vec![application, second],
        ..server()
    };
    model.server.state = text();
    model.server.dir = text();
    model.server.listeners = vec![text()];
    model
}

/// Many applications, one of which cannot serve.
pub(crate) fn many() -> Model {
    let mut applications: Vec<Application> = (1..=14)
        .map(|number| shop(&format!("application-{number:02}")))
        .collect();
    applications[3].name =
        "a-name-that-is-as-long-as-somebody-could-make-it-without-any-place-to-break-it-in-two"
            .into();
    applications[5].next_start_s = Some(17);
    applications[5].workers.clear();
    applications[6].measured = Measured::default();
    for application in &mut applications {
        application.routes.truncate(3);
        application.exceptions.truncate(1);
        application.slow.truncate(1);
    }
    Model {
        measured: applications[0].measured.clone(),
        outcomes: applications[0].outcomes.clone(),
        responses: applications[0].responses.clone(),
        applications,
        ..server()
    }
}

fn server() -> Model {
    Model {
        server: Server {
            version: "0.1.0".into(),
            pid: 4711,
            state: "serving".into(),
            dir: "/srv/shop/current".into(),
            now: NOW,
            started: NOW - 93_784,
            listeners: vec!["https://0.0.0.0:443".into(), "http://0.0.0.0:80".into()],
            connections: 37,
        },
        ..Model::default()
    }
}

fn mark(before: u64, text: &str) -> Mark {
    Mark {
        at: NOW - before,
        text: text.into(),
        application: None,
    }
}

fn shop(name: &str) -> Application {
    Application {
        name: name.into(),
        dir: format!("/srv/{name}/current"),
        environment: "production".into(),
        hosts: vec![format!("{name}.example.com")],
        queue: Queue {
            length: 3,
            longest: 41,
            limit: 256,
            oldest_ms: Some(86),
        },
        workers: (0..4).map(worker).collect(),
        next_start_s: None,
        outcomes: [
            ("ok", 182_331),
            ("error", 412),
            ("client_gone", 96),
            ("shed", 0),
            ("timeout", 7),
        ]
        .map(|(name, count)| (name.to_owned(), count))
        .into(),
        responses: [
            ("2xx", 161_007),
            ("3xx", 20_900),
            ("4xx", 424),
            ("5xx", 419),
        ]
        .map(|(name, count)| (name.to_owned(), count))
        .into(),
        routes: routes(),
        exceptions: exceptions(),
        slow: slow(),
        cache: Some(Cache {
            targets: 214,
            bytes: 13 << 20,
            limit_bytes: 64 << 20,
            hits: 20_114,
            misses: 9_804,
        }),
        measured: measured(),
    }
}

fn worker(number: u16) -> Worker {
    let thread = |thread: u16, request: Option<&str>, since_ms| Thread {
        number: thread,
        state: if request.is_some() { "running" } else { "idle" }.into(),
        request: request.map(str::to_owned),
        since_ms,
    };
    let threads = match number {
        0 => vec![
            thread(0, Some("GET /products/84113?locale=de"), Some(38)),
            thread(
                1,
                Some(
                    "POST /reports/annual-figures-of-all-warehouses-and-their-suppliers/2026/export.xlsx",
                ),
                Some(12_800),
            ),
            thread(2, None, None),
        ],
        1 => vec![
            thread(0, None, None),
            thread(1, None, None),
            thread(2, None, None),
        ],
        _ => vec![
            thread(0, Some("GET /"), Some(4)),
            thread(1, Some("GET /cart"), Some(1_200)),
            thread(2, None, None),
        ],
    };
    Worker {
        number,
        generation: 3,
        pid: 4720 + i32::from(number),
        state: if number == 1 { "starting" } else { "ready" }.into(),
        started: NOW - if number == 1 { 95 } else { 400 },
        requests: 20_311 * u64::from(number + 1) % 54_321,
        pss_bytes: Some((141 + u64::from(number) * 7) << 20),
        private_bytes: Some((88 + u64::from(number) * 7) << 20),
        threads,
    }
}

fn routes() -> Vec<Route> {
    let long = "/a/very/long/route/(:with)/(*globs)/:and_many_parts_that_nobody_wanted_to_shorten/:format/of/some/engine/:id";
    let names = [
        "/products/:id",
        "/",
        "/cart",
        "/search",
        long,
        "reports#export",
        "/orders/:id/invoice.pdf",
        "/login",
    ];
    let name = |index: usize| match names.get(index) {
        Some(name) => (*name).to_owned(),
        None => format!("/section-{index}/:id"),
    };
    let route = |index: usize| {
        let weight = 1.0 / (index + 1) as f64;
        let slow = 0.004 * ((index * 7 % 13) + 1) as f64;
        let count = (60_000.0 * weight) as u64;
        let total_s = count as f64 * slow * 1.4;
        Route {
            name: name(index),
            count,
            rate: 120.0 * weight,
            p50_s: Some(slow),
            p95_s: Some(slow * 3.1),
            p99_s: Some(slow * 11.0),
            total_s,
            database_s: (index % 5 != 4).then_some(total_s * 0.09 * (index % 9) as f64),
            view_s: (index % 5 != 4).then_some(total_s * 0.05 * (index % 7) as f64),
            queries: (index % 5 != 4).then_some((index * 3 % 17) as f64),
            cpu_s: Some(total_s * 0.06 * (index % 11) as f64),
            lock_s: (index % 5 != 4).then_some(total_s * 0.02 * (index % 5) as f64),
            objects: Some((index * 1_237 % 9_000) as f64),
            gc_s: Some(total_s * 0.013 * (index % 4) as f64),
            errors: if index % 6 == 5 { count / 40 } else { 0 },
        }
    };
    (0..200).map(route).collect()
}

fn exceptions() -> Vec<ExceptionGroup> {
    let group = |index: u64, class: &str, message: &str| ExceptionGroup {
        id: format!("{:08x}", 0x9e37_79b9_u64 * (index + 1) % 0xffff_ffff),
        class: class.into(),
        message: message.into(),
        location: "app/models/order.rb:Order#total".into(),
        count: 412 / (index + 1),
        hours: (0..24)
            .map(|hour| (12 + hour * 7 % 30) / (index + 1))
            .collect(),
        first: NOW - 86_400 * (index + 1),
        last: NOW - 40 * (index + 1),
        release: Some("9be2d11".into()),
    };
    vec![
        group(
            0,
            "NoMethodError",
            "undefined method `price' for nil:NilClass",
        ),
        group(
            1,
            "ActiveRecord::StatementInvalid",
            "Mysql2::Error: Lock wait timeout exceeded; try restarting transaction: UPDATE `products` SET `products`.`stock` = 41 WHERE `products`.`id` = 84113 AND `products`.`deleted_at` IS NULL",
        ),
        group(
            2,
            "A::Very::Deeply::Nested::Namespace::OfSomeGem::WithAnError::ThatNobodyExpectedToBeThisLong",
            "x",
        ),
    ]
}

fn slow() -> Vec<SlowRequest> {
    let request = |index: u64| SlowRequest {
        key: format!("k{index}"),
        at: NOW - 30 * (index + 1),
        id: Some(format!("s{index}")),
        request: format!("GET /reports/{index}?from=2026-01-01&to=2026-11-23&detail=everything"),
        route: Some("reports#show".into()),
        duration_ms: 8_400 / (index + 1),
        queue_ms: 12,
        database_ms: Some(2_100 / (index + 1)),
        status: Some(200),
        outcome: "ok".into(),
        worker: Some(0),
        samples: 20,
    };
    (0..4).map(request).collect()
}

/// The page of a group of exceptions.
pub(crate) fn opened_exception() -> Model {
    let line = |is_own: bool, text: &str| TraceLine {
        text: text.to_owned(),
        is_own,
    };
    let gem = "/var/lib/gems/3.1.0/gems/activerecord-7.1.3/lib/active_record/relation/calculations.rb:88:in `block in pluck'";
    let backtrace: Vec<_> = (0..40)
        .map(|number| match number % 9 {
            0 => line(
                true,
                &format!("app/models/order.rb:{}:in `total'", 40 + number),
            ),
            _ => line(false, gem),
        })
        .collect();
    let pair = |name: &str, value: &str| (name.to_owned(), value.to_owned());
    let sample = |number: u64| ExceptionSample {
        at: NOW - 40 * (number + 1),
        message: "undefined method `price' for nil:NilClass".into(),
        request: "POST /orders/8841".into(),
        request_id: format!("019ab0c4-7d1e-7c3b-9a55-3f8e2f6f1c1{number}"),
        facts: vec![pair("Route", "/orders/:id"), pair("Worker", "2")],
        values: vec![
            (
                "Parameters".into(),
                vec![pair("id", "8841"), pair("card", "[FILTERED]")],
            ),
            ("Header fields".into(), vec![pair("User-Agent", "curl/8")]),
        ],
        backtrace: backtrace.clone(),
        causes: vec![ExceptionCause {
            class: "KeyError".into(),
            message: "key not found: :price".into(),
            backtrace: backtrace[..5].to_vec(),
        }],
    };
    Model {
        opened: Some(Opened::Exception(OpenedException {
            group: exceptions().remove(0),
            application: None,
            cause: Some(("KeyError".into(), "app/models/order.rb:price".into())),
            route: Some("/orders/:id".into()),
            is_handled: false,
            samples: (0..5).map(sample).collect(),
        })),
        ..server()
    }
}

/// The page of a slow request.
pub(crate) fn opened_slow() -> Model {
    Model {
        opened: Some(Opened::Slow(OpenedSlowRequest {
            request: slow().remove(0),
            application: None,
            stack: "20  100 %  Rack::Handler#call\n18   90 %    ReportsController#show\n17   85 %      Report#rows (app/models/report.rb:88)\n".repeat(20),
        })),
        ..server()
    }
}

/// The pages of their own with hostile texts wherever a text can be.
pub(crate) fn hostile_opened() -> [Model; 2] {
    let text = || HOSTILE.to_owned();
    let line = || TraceLine {
        text: text(),
        is_own: true,
    };
    let exception = OpenedException {
        group: ExceptionGroup {
            id: text(),
            class: text(),
            message: text(),
            location: text(),
            release: Some(text()),
            ..ExceptionGroup::default()
        },
        application: Some(text()),
        cause: Some((text(), text())),
        route: Some(text()),
        is_handled: true,
        samples: vec![ExceptionSample {
            message: text(),
            request: text(),
            request_id: text(),
            facts: vec![(text(), text())],
            values: vec![(text(), vec![(text(), text())])],
            backtrace: vec![line()],
            causes: vec![ExceptionCause {
                class: text(),
                message: text(),
                backtrace: vec![line()],
            }],
            ..ExceptionSample::default()
        }],
    };
    let slow = OpenedSlowRequest {
        request: SlowRequest {
            key: text(),
            id: Some(text()),
            request: text(),
            route: Some(text()),
            outcome: text(),
            samples: 1,
            ..SlowRequest::default()
        },
        application: Some(text()),
        stack: text(),
    };
    [Opened::Exception(exception), Opened::Slow(slow)].map(|opened| Model {
        opened: Some(opened),
        ..server()
    })
}

/// Waves of load, with a pause of a minute in which the server was stopped.
fn measured() -> Measured {
    let recent = (0..120_u32).filter(|index| !(60..72).contains(index));
    Measured {
        recent: recent.map(|index| point(index, 5)).collect(),
        day: (0..288).map(|index| point(index, 300)).collect(),
    }
}

fn point(index: u32, seconds: u32) -> Point {
    let count = if seconds == 5 { 119 } else { 287 };
    let wave = (f64::from(index) / 17.0).sin() * 0.4 + (f64::from(index) / 5.3).sin() * 0.15 + 1.0;
    let requests = (wave * 42.0 * f64::from(seconds)) as u64;
    let latency = (-80..16).filter_map(|step| {
        let up_to_s = (f64::from(step) / 8.0).exp2();
        let fast = (-((f64::from(step) + 52.0 - wave * 3.0) / 6.0).powi(2)).exp();
        let slow = 0.06 * (-((f64::from(step) + 16.0) / 7.0).powi(2)).exp();
        let late = if index % 23 == 7 && step == 12 {
            0.01
        } else {
            0.0
        };
        let count = ((fast + slow + late) * requests as f64 / 10.0) as u64;
        (count > 0).then_some(Bucket {
            above_s: up_to_s / 2_f64.powf(0.125),
            up_to_s,
            count,
        })
    });
    Point {
        at: NOW - u64::from((count - index) * seconds),
        seconds: f64::from(seconds),
        requests,
        errors: if index % 23 == 7 { requests / 50 } else { 0 },
        latency: latency.collect(),
        queue: if index % 23 == 7 {
            9
        } else {
            u64::from(index % 3)
        },
        busy: wave * 5.0,
        threads: 12,
        memory_bytes: Some(((560 + index * 3 % 210) as u64) << 20),
    }
}

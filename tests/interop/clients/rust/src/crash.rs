//! The node is killed and started again under this: `ENDPOINT crash TOPIC`. Says READY when it can stand that, and waits for a line.

use std::collections::HashSet;
use std::io::BufRead;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use rocketmq::conf::{ClientOption, ProducerOption, SimpleConsumerOption};
use rocketmq::error::ClientError;
use rocketmq::model::common::{FilterExpression, FilterType};
use rocketmq::model::message::MessageBuilder;
use rocketmq::{Producer, SimpleConsumer};
use tokio::time::sleep;

const BEFORE: usize = 200;
const AFTER: usize = 200;
const FAILURES_MAX: usize = 10_000;
const PATIENCE: Duration = Duration::from_secs(120);
const LEASE: Duration = Duration::from_secs(20);

type Bodies = Arc<Mutex<HashSet<String>>>;

pub async fn run(client: &ClientOption, topic: &str) {
    match stream(client, topic).await {
        Ok(said) => println!("OK stream\n{said}"),
        Err(why) => println!("FAILED stream\n{why}"),
    }
}

/// Sends and consumes all the time: what was acknowledged is consumed.
async fn stream(client: &ClientOption, topic: &str) -> Result<String, String> {
    let seen = Bodies::default();
    let consuming = tokio::spawn(consume(client.clone(), topic.to_string(), seen.clone()));
    let mut option = ProducerOption::default();
    option.set_topics(vec![topic.to_string()]);
    let mut producer = Producer::new(option, client.clone()).map_err(told)?;
    producer.start().await.map_err(told)?;
    let back = Arc::new(AtomicBool::new(false));
    let mut acknowledged = HashSet::new();
    let (mut failed, mut since, mut number) = (0, 0, 0);
    while since < AFTER {
        let is_back = back.load(Ordering::Acquire);
        let body = format!("m{number}");
        number += 1;
        let message = MessageBuilder::builder()
            .set_topic(topic)
            .set_body(body.clone().into_bytes());
        match producer.send(message.build().map_err(told)?).await {
            Ok(_) => {
                acknowledged.insert(body);
                since += usize::from(is_back);
                if acknowledged.len() == BEFORE {
                    println!("READY");
                    listen(back.clone());
                }
            }
            Err(error) => {
                failed += 1;
                if failed > FAILURES_MAX {
                    return Err(format!("the producer does not come back: {error:?}"));
                }
                sleep(Duration::from_millis(20)).await;
            }
        }
        if !is_back {
            sleep(Duration::from_millis(5)).await;
        }
    }
    let begun = Instant::now();
    let missing = || acknowledged.difference(&seen.lock().unwrap()).count();
    while missing() > 0 && begun.elapsed() < PATIENCE && !consuming.is_finished() {
        sleep(Duration::from_millis(50)).await;
    }
    match missing() {
        0 => Ok(format!("rust: {} acknowledged, {failed} sends failed", acknowledged.len())),
        many => Err(format!("{many} of {} are missing", acknowledged.len())),
    }
}

fn told(error: ClientError) -> String {
    format!("{error:?}")
}

fn listen(back: Arc<AtomicBool>) {
    std::thread::spawn(move || {
        let mut line = String::new();
        if std::io::stdin().lock().read_line(&mut line).is_ok() {
            back.store(true, Ordering::Release);
        }
    });
}

/// Receives for ever; what fails is tried again, as an application does.
async fn consume(client: ClientOption, topic: String, seen: Bodies) {
    let mut option = SimpleConsumerOption::default();
    option.set_topics(vec![topic.clone()]);
    option.set_consumer_group(format!("{topic}-group"));
    let mut consumer = SimpleConsumer::new(option, client).expect("a consumer");
    consumer.start().await.expect("a consumer that starts");
    let all = FilterExpression::new(FilterType::Tag, "*");
    loop {
        match consumer.receive_with(&topic, &all, 16, LEASE).await {
            Ok(messages) => {
                for message in messages {
                    seen.lock().unwrap().insert(String::from_utf8_lossy(message.body()).into_owned());
                    // Without an acknowledgement it comes again.
                    let _ = consumer.ack(&message).await;
                }
            }
            Err(_) => sleep(Duration::from_millis(200)).await,
        }
    }
}

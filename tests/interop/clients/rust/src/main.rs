//! The official Rust SDK as a user writes it. Arguments: endpoint, topic, group; or the endpoint alone, for all that `features`
//! has; or endpoint, `crash`, topic; or endpoint, `guarded`, and what that wants. Prints what was seen, one a line.

mod crash;
mod features;
mod guarded;

use rocketmq::conf::{ClientOption, ProducerOption, SimpleConsumerOption};
use rocketmq::error::ClientError;
use rocketmq::model::common::{FilterExpression, FilterType};
use rocketmq::model::message::MessageBuilder;
use rocketmq::{Producer, SimpleConsumer};

const SENT: usize = 20;
const POLLS_MAX: usize = 12;

#[tokio::main]
async fn main() -> Result<(), ClientError> {
    let arguments: Vec<String> = std::env::args().collect();
    let mut client = ClientOption::default();
    client.set_access_url(arguments[1].clone());
    client.set_enable_tls(false);
    if arguments.len() == 2 {
        return features::run(&client).await;
    }
    match arguments[2].as_str() {
        "crash" => {
            crash::run(&client, &arguments[3]).await;
            std::process::exit(0);
        }
        "guarded" => return guarded::run(&client, &arguments[3..]).await,
        _ => (),
    }
    let (topic, group) = (&arguments[2], &arguments[3]);
    produce(&client, topic).await?;
    consume(&client, topic, group).await
}

async fn produce(client: &ClientOption, topic: &str) -> Result<(), ClientError> {
    let mut option = ProducerOption::default();
    option.set_topics(vec![topic.to_string()]);
    let mut producer = Producer::new(option, client.clone())?;
    producer.start().await?;
    for number in 0..SENT {
        let message = MessageBuilder::builder()
            .set_topic(topic)
            .set_tag(if number % 2 == 0 { "even" } else { "odd" })
            .set_keys(vec![format!("key-{number}")])
            .set_properties([("place".to_string(), "Zürich".to_string())].into())
            .set_body(format!("body {number}").into_bytes())
            .build()?;
        println!("sent\t{}", producer.send(message).await?.message_id());
    }
    producer.shutdown().await
}

async fn consume(client: &ClientOption, topic: &str, group: &str) -> Result<(), ClientError> {
    let mut option = SimpleConsumerOption::default();
    option.set_topics(vec![topic.to_string()]);
    option.set_consumer_group(group);
    let mut consumer = SimpleConsumer::new(option, client.clone())?;
    consumer.start().await?;
    let even = FilterExpression::new(FilterType::Tag, "even");
    let mut seen = 0;
    for _ in 0..POLLS_MAX {
        for message in consumer.receive(topic, &even).await? {
            seen += 1;
            let place = message
                .properties()
                .get("place")
                .cloned()
                .unwrap_or_default();
            println!(
                "seen\t{}\t{}\t{}\t{}\t{}",
                String::from_utf8_lossy(message.body()),
                message.tag().unwrap_or("-"),
                message.keys().join(","),
                place,
                message.message_id()
            );
            consumer.ack(&message).await?;
        }
        if seen >= SENT / 2 {
            break;
        }
    }
    consumer.shutdown().await
}

//! More of the SDK: order, delay, transactions, SQL92, invisible time, dead letters. All run at once, each with a topic and a group of its own.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use rocketmq::conf::{ClientOption, ProducerOption, SimpleConsumerOption};
use rocketmq::error::ClientError;
use rocketmq::model::common::{FilterExpression, FilterType};
use rocketmq::model::message::{MessageBuilder, MessageView};
use rocketmq::model::transaction::{Transaction, TransactionResolution};
use rocketmq::{Producer, SimpleConsumer};

const PATIENCE: Duration = Duration::from_secs(80);
const LEASE: Duration = Duration::from_secs(30);
const SHORT_LEASE: Duration = Duration::from_secs(10);
const GROUPS: usize = 3;

/// Run all of it; what was seen is printed, one a line: scene, body, message group, attempt, milliseconds after 1970.
pub async fn run(client: &ClientOption) -> Result<(), ClientError> {
    tokio::try_join!(
        fifo(client),
        delay(client),
        transaction(client),
        sql(client),
        invisible(client),
        dead(client)
    )?;
    Ok(())
}

fn now_ms() -> u128 {
    SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .unwrap()
        .as_millis()
}

fn text(message: &MessageView) -> String {
    String::from_utf8_lossy(message.body()).into_owned()
}

fn body(number: usize) -> Vec<u8> {
    format!("body {number}").into_bytes()
}

fn option(topic: &str) -> ProducerOption {
    let mut option = ProducerOption::default();
    option.set_topics(vec![topic.to_string()]);
    option
}

async fn producing(client: &ClientOption, topic: &str) -> Result<Producer, ClientError> {
    let mut producer = Producer::new(option(topic), client.clone())?;
    producer.start().await?;
    Ok(producer)
}

async fn consuming(client: &ClientOption, topic: &str) -> Result<SimpleConsumer, ClientError> {
    let mut option = SimpleConsumerOption::default();
    option.set_topics(vec![topic.to_string()]);
    option.set_consumer_group(format!("{topic}-group"));
    let mut consumer = SimpleConsumer::new(option, client.clone())?;
    consumer.start().await?;
    Ok(consumer)
}

/// Receives and acknowledges until enough have come, and once more for what may be too many.
async fn drain(
    client: &ClientOption,
    topic: &str,
    filter: FilterExpression,
    enough: usize,
) -> Result<(), ClientError> {
    let consumer = consuming(client, topic).await?;
    let begun = SystemTime::now();
    let mut seen = 0;
    let mut last = false;
    while !last && begun.elapsed().unwrap() < PATIENCE {
        last = seen >= enough;
        for message in consumer.receive_with(topic, &filter, 16, LEASE).await? {
            seen += 1;
            report(topic, &message);
            consumer.ack(&message).await?;
        }
    }
    consumer.shutdown().await
}

fn report(topic: &str, message: &MessageView) {
    let group = message.message_group().unwrap_or("-");
    println!(
        "{topic}\t{}\t{group}\t{}\t{}",
        text(message),
        message.delivery_attempt(),
        now_ms()
    );
}

fn all() -> FilterExpression {
    FilterExpression::new(FilterType::Tag, "*")
}

async fn fifo(client: &ClientOption) -> Result<(), ClientError> {
    let topic = "rust-fifo";
    let producer = producing(client, topic).await?;
    for number in 0..18 {
        let message = MessageBuilder::fifo_message_builder(
            topic,
            body(number),
            format!("group-{}", number % GROUPS),
        );
        producer.send(message.build()?).await?;
    }
    drain(client, topic, all(), 18).await?;
    producer.shutdown().await
}

/// The SDK counts instants in seconds.
async fn delay(client: &ClientOption) -> Result<(), ClientError> {
    let topic = "rust-delay";
    let producer = producing(client, topic).await?;
    let due = (now_ms() / 1000) as i64 + 4;
    for number in 0..3 {
        producer
            .send(MessageBuilder::delay_message_builder(topic, body(number), due).build()?)
            .await?;
    }
    println!("due\t{due}");
    drain(client, topic, all(), 3).await?;
    producer.shutdown().await
}

/// Two committed, two rolled back, two left to the checker, which commits one of them.
async fn transaction(client: &ClientOption) -> Result<(), ClientError> {
    let topic = "rust-transaction";
    let checker = |_: String, message: MessageView| {
        println!("asked\t{}", text(&message));
        if text(&message) == "body 4" {
            TransactionResolution::COMMIT
        } else {
            TransactionResolution::ROLLBACK
        }
    };
    let mut producer =
        Producer::new_transaction_producer(option(topic), client.clone(), Box::new(checker))?;
    producer.start().await?;
    for number in 0..6 {
        let message = MessageBuilder::transaction_message_builder(topic, body(number)).build()?;
        let begun = producer.send_transaction_message(message).await?;
        match number {
            0 | 1 => begun.commit().await?,
            2 | 3 => begun.rollback().await?,
            _ => (),
        }
    }
    drain(client, topic, all(), 3).await?;
    producer.shutdown().await
}

async fn sql(client: &ClientOption) -> Result<(), ClientError> {
    let topic = "rust-sql";
    let producer = producing(client, topic).await?;
    for number in 0..10 {
        let message = MessageBuilder::builder()
            .set_topic(topic)
            .set_body(body(number));
        let weighed = message.set_properties([("weight".to_string(), number.to_string())].into());
        producer.send(weighed.build()?).await?;
    }
    drain(
        client,
        topic,
        FilterExpression::new(FilterType::Sql, "weight BETWEEN 4 AND 6"),
        3,
    )
    .await?;
    producer.shutdown().await
}

/// A message that is not acknowledged comes again when the time of its receive is over; this SDK cannot change it afterwards.
async fn invisible(client: &ClientOption) -> Result<(), ClientError> {
    let topic = "rust-invisible";
    let producer = producing(client, topic).await?;
    producer
        .send(
            MessageBuilder::builder()
                .set_topic(topic)
                .set_body(body(0))
                .build()?,
        )
        .await?;
    let consumer = consuming(client, topic).await?;
    let begun = SystemTime::now();
    let mut seen = 0;
    while seen < 2 && begun.elapsed().unwrap() < PATIENCE {
        for message in consumer.receive_with(topic, &all(), 1, SHORT_LEASE).await? {
            seen += 1;
            report(topic, &message);
            if seen == 2 {
                consumer.ack(&message).await?;
            }
        }
    }
    consumer.shutdown().await?;
    producer.shutdown().await
}

/// A message that is never acknowledged becomes a dead letter after the group's attempts, and another group reads it.
async fn dead(client: &ClientOption) -> Result<(), ClientError> {
    let topic = "rust-dead";
    let producer = producing(client, topic).await?;
    let message = MessageBuilder::builder()
        .set_topic(topic)
        .set_body(body(0));
    producer.send(message.build()?).await?;
    let consumer = consuming(client, topic).await?;
    let begun = SystemTime::now();
    let mut seen = 0;
    while seen < 2 && begun.elapsed().unwrap() < PATIENCE {
        for message in consumer.receive_with(topic, &all(), 1, SHORT_LEASE).await? {
            seen += 1;
            report(topic, &message);
        }
    }
    // It is found to have no attempt left by who receives when its time is over.
    consumer.receive_with(topic, &all(), 1, SHORT_LEASE).await?;
    consumer.shutdown().await?;
    drain(client, "%DLQ%rust-dead-group", all(), 1).await?;
    producer.shutdown().await
}

//! Access keys: `ENDPOINT TOPIC GROUP CLOSED USER PASSWORD`. Prints what came of sending and consuming with the right ones, of sending
//! to a topic that the user may not send to, and of another password.

use std::collections::BTreeSet;
use std::time::{Duration, SystemTime};

use rocketmq::conf::{ClientOption, ProducerOption, SimpleConsumerOption};
use rocketmq::error::ClientError;
use rocketmq::model::common::{FilterExpression, FilterType};
use rocketmq::model::message::MessageBuilder;
use rocketmq::{Producer, SimpleConsumer};

const COUNT: usize = 5;
const PATIENCE: Duration = Duration::from_secs(60);

pub async fn run(client: &ClientOption, words: &[String]) -> Result<(), ClientError> {
    let [topic, group, closed, user, password] = words else {
        panic!("five words are wanted: {words:?}");
    };
    let with = |secret: String| {
        let mut option = client.clone();
        option.set_access_key(user.clone());
        option.set_secret_key(secret);
        option
    };
    let right = with(password.clone());
    send(&right, topic, COUNT).await?;
    println!("right\t{}", receive(&right, topic, group).await?);
    println!("closed\t{}", refusal(send(&right, closed, 1).await));
    let wrong = with(format!("{password}!"));
    println!("wrong\t{}", refusal(send(&wrong, topic, 1).await));
    Ok(())
}

fn refusal(sent: Result<(), ClientError>) -> String {
    match sent {
        Ok(()) => "nothing".to_string(),
        Err(error) => format!("{error:?}").replace('\n', " "),
    }
}

async fn send(client: &ClientOption, topic: &str, count: usize) -> Result<(), ClientError> {
    let mut option = ProducerOption::default();
    option.set_topics(vec![topic.to_string()]);
    let mut producer = Producer::new(option, client.clone())?;
    producer.start().await?;
    for number in 0..count {
        let message = MessageBuilder::builder()
            .set_topic(topic)
            .set_body(format!("m{number}").into_bytes());
        producer.send(message.build()?).await?;
    }
    producer.shutdown().await
}

async fn receive(client: &ClientOption, topic: &str, group: &str) -> Result<usize, ClientError> {
    let mut option = SimpleConsumerOption::default();
    option.set_topics(vec![topic.to_string()]);
    option.set_consumer_group(group);
    let mut consumer = SimpleConsumer::new(option, client.clone())?;
    consumer.start().await?;
    let begun = SystemTime::now();
    let all = FilterExpression::new(FilterType::Tag, "*");
    let mut seen = BTreeSet::new();
    while seen.len() < COUNT && begun.elapsed().unwrap() < PATIENCE {
        for message in consumer.receive(topic, &all).await? {
            seen.insert(message.body().to_vec());
            consumer.ack(&message).await?;
        }
    }
    consumer.shutdown().await?;
    Ok(seen.len())
}

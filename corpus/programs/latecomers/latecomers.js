// An MQTT broker (aedes) that publishes as fast as its subscriber takes it, and a subscriber (MQTT.js).

async function publishes(port, bytes) {
  const { Aedes } = require("aedes");
  const broker = await Aedes.createBroker();
  require("net").createServer(broker.handle).listen(port);
  const payload = Buffer.alloc(Number(bytes), "x");
  const next = () => broker.publish({ topic: "t", payload, qos: 0 }, () => setImmediate(next));
  next();
}

function subscribes(host, port) {
  require("mqtt").connect(`mqtt://${host}:${port}`).subscribe("t");
}

const [what, ...args] = process.argv.slice(2);
({ publishes, subscribes })[what](...args);

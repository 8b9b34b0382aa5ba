// MQTT: mqtt.js serve PORT | mqtt.js send URL BYTES MILLISECONDS QOS, the next so long after the one
// before was acknowledged
const [what, where, bytes, pause, qos] = process.argv.slice(2);
if (what === "serve") {
  require("aedes").Aedes.createBroker().then((broker) =>
    require("net").createServer(broker.handle).listen(Number(where)));
} else {
  const client = require("mqtt").connect(where);
  const page = Buffer.alloc(Number(bytes), 120);
  const next = () => client.publish("page", page, { qos: Number(qos) }, () => setTimeout(next, Number(pause)));
  client.on("connect", next);
}

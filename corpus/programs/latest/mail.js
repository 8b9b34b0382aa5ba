// nodemailer sends one mail of so many bytes to smtp-server: mail.js serve PORT | mail.js send HOST PORT BYTES
const { Readable } = require("stream");
const [what, ...rest] = process.argv.slice(2);
if (what === "serve") {
  const { SMTPServer } = require("smtp-server");
  new SMTPServer({ authOptional: true, disabledCommands: ["STARTTLS"], onData(stream, session, done) {
    stream.resume();
    stream.on("end", done);
  } }).listen(Number(rest[0]));
} else {
  const [host, port, bytes] = rest;
  let left = Number(bytes);
  const content = new Readable({ read() {
    left -= 65536;
    this.push(left > 0 ? Buffer.alloc(65536, 120) : null);
  } });
  require("nodemailer").createTransport({ host, port: Number(port), secure: false, ignoreTLS: true })
    .sendMail({ from: "a@x.test", to: "b@x.test", text: "x", attachments: [{ filename: "x", content }] });
}

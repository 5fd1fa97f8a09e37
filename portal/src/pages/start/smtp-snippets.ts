/** The first message over SMTP: with swaks on the command line, and with Nodemailer. */
import { start } from '../../texts/start.ts';

/** There the certificate is the self-signed one of the first start. */
const LOOPBACK = /^(localhost|127\.|\[?::1)/;

interface SmtpMail {
  from: string;
  to: string;
  subject: string;
  text: string;
}

const quoted = (text: string): string => `'${text.replaceAll("'", "'\\''")}'`;
const bare = (from: string): string => /<([^>]+)>/.exec(from)?.[1] ?? from;

interface Login {
  username: string;
  password: string;
}

interface Server {
  host: string;
  port: number;
}

export function smtpSnippets(
  { host, port }: Server,
  mail: SmtpMail,
  credential: Login | undefined,
): Record<string, string> {
  const isOwn = LOOPBACK.test(host);
  const user = credential === undefined ? '"$POSTRIDER_SMTP_USER"' : quoted(credential.username);
  const password = credential === undefined ? '"$POSTRIDER_SMTP_PASSWORD"' : quoted(credential.password);
  const [jsUser, jsPassword] =
    credential === undefined
      ? ['process.env.POSTRIDER_SMTP_USER', 'process.env.POSTRIDER_SMTP_PASSWORD']
      : [JSON.stringify(credential.username), JSON.stringify(credential.password)];
  const swaks = [
    `swaks --server ${host}:${port} --tls`,
    `--auth-user ${user} --auth-password ${password}`,
    `--from ${bare(mail.from)} --to ${mail.to}`,
    `--header ${quoted(`From: ${mail.from}`)} --header ${quoted(`Subject: ${mail.subject}`)}`,
    `--body ${quoted(mail.text)}`,
  ].join(' \\\n  ');
  const nodemailer = `import { createTransport } from 'nodemailer';

const transport = createTransport({
  host: '${host}',
  port: ${port},
  requireTLS: true,
${isOwn ? `  tls: { rejectUnauthorized: false }, // ${start.ownCertificate}\n` : ''}  auth: { user: ${jsUser}, pass: ${jsPassword} },
});
await transport.sendMail(${JSON.stringify({ from: mail.from, to: mail.to, subject: mail.subject, text: mail.text }, null, 2)});`;
  return { swaks, Nodemailer: nodemailer };
}

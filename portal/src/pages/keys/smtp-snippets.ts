/** The settings of an SMTP credential for email libraries and frameworks. */
export interface SmtpSettings {
  host: string;
  port: number;
  username: string;
  password: string;
  from: string;
  to: string;
}

const nodemailer = ({
  host,
  port,
  username,
  password,
  from,
  to,
}: SmtpSettings): string => `import nodemailer from 'nodemailer';

const transport = nodemailer.createTransport({
  host: '${host}',
  port: ${port},
  requireTLS: true,
  auth: { user: '${username}', pass: '${password}' },
});
await transport.sendMail({ from: '${from}', to: '${to}', subject: 'Hello', text: 'It works.' });`;

const django = ({ host, port, username, password, from }: SmtpSettings): string => `# settings.py
EMAIL_BACKEND = 'django.core.mail.backends.smtp.EmailBackend'
EMAIL_HOST = '${host}'
EMAIL_PORT = ${port}
EMAIL_USE_TLS = True
EMAIL_HOST_USER = '${username}'
EMAIL_HOST_PASSWORD = '${password}'
DEFAULT_FROM_EMAIL = '${from}'`;

const laravel = ({ host, port, username, password, from }: SmtpSettings): string => `# .env
MAIL_MAILER=smtp
MAIL_HOST=${host}
MAIL_PORT=${port}
MAIL_USERNAME=${username}
MAIL_PASSWORD=${password}
MAIL_ENCRYPTION=tls
MAIL_FROM_ADDRESS=${from}`;

const rails = ({ host, port, username, password }: SmtpSettings): string => `# config/environments/production.rb
config.action_mailer.delivery_method = :smtp
config.action_mailer.smtp_settings = {
  address: '${host}',
  port: ${port},
  user_name: '${username}',
  password: '${password}',
  authentication: :plain,
  enable_starttls: true
}`;

const spring = ({ host, port, username, password }: SmtpSettings): string => `# application.properties
spring.mail.host=${host}
spring.mail.port=${port}
spring.mail.username=${username}
spring.mail.password=${password}
spring.mail.properties.mail.smtp.auth=true
spring.mail.properties.mail.smtp.starttls.enable=true
spring.mail.properties.mail.smtp.starttls.required=true`;

const phpMailer = ({
  host,
  port,
  username,
  password,
  from,
  to,
}: SmtpSettings): string => `use PHPMailer\\PHPMailer\\PHPMailer;

$mail = new PHPMailer(true);
$mail->isSMTP();
$mail->Host = '${host}';
$mail->Port = ${port};
$mail->SMTPSecure = PHPMailer::ENCRYPTION_STARTTLS;
$mail->SMTPAuth = true;
$mail->Username = '${username}';
$mail->Password = '${password}';
$mail->setFrom('${from}');
$mail->addAddress('${to}');
$mail->Subject = 'Hello';
$mail->Body = 'It works.';
$mail->send();`;

const environment = ({ host, port, username, password }: SmtpSettings): string => `SMTP_HOST=${host}
SMTP_PORT=${port}
SMTP_USER=${username}
SMTP_PASSWORD=${password}
SMTP_TLS=starttls`;

export function smtpSnippetsOf(settings: SmtpSettings): Record<string, string> {
  return {
    nodemailer: nodemailer(settings),
    Django: django(settings),
    Laravel: laravel(settings),
    Rails: rails(settings),
    'Spring Boot': spring(settings),
    PHPMailer: phpMailer(settings),
    '.env': environment(settings),
  };
}

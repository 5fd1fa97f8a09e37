/**
 * The Debian package: the application with its packages and Node below /usr/lib/postrider, the systemd unit of deploy/, settings in
 * /etc/postrider, and data in /var/lib/postrider. The maintainer scripts are in deploy/debian.
 */
import { createHash } from 'node:crypto';
import { mkdirSync, readdirSync, readFileSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { gzipSync } from 'node:zlib';
import { manifest } from './app.ts';
import { copy, normalize, root, run } from './files.ts';
import { type Architecture, nodeBinary } from './node.ts';

const DOC = 'usr/share/doc/postrider';

/** Returns the Debian version. A pre-release such as 1.0.0-rc.1 sorts before its release. */
const debianVersion = (version: string): string => `${version.replace('-', '~')}-1`;

/** Replaces all of `from` and throws if there is none, because the file in deploy/ has changed then. */
function replaced(text: string, from: string, to: string): string {
  if (!text.includes(from)) throw new Error(`${from} was not found.`);
  return text.replaceAll(from, to);
}

/** Replaces the paths of a checkout in a file of deploy/ by those of the package. */
function packaged(name: string): string {
  const text = readFileSync(path.join(root, 'deploy', name), 'utf8');
  return replaced(
    replaced(text, '/opt/postrider/node_modules/.bin/node', '/usr/lib/postrider/bin/node'),
    '/opt/',
    '/usr/lib/',
  );
}

/** Returns the unit without the comments about a checkout that precede it. */
function unit(): string {
  // A checkout runs the build in its folder; the package is the build.
  const text = replaced(packaged('postrider.service'), ' build/bin/', ' bin/');
  return replaced(text.slice(text.indexOf('[Unit]')), 'Documentation=', 'Documentation=man:postrider(1) ');
}

/** Returns the license in the form of a Debian copyright file. */
function copyright(template: string): string {
  const license = readFileSync(path.join(root, 'LICENSE'), 'utf8').trim();
  const [, holder = ''] = /^Copyright (?:\(c\) )?(.+)$/m.exec(license) ?? [];
  const text = license.slice(license.indexOf('Permission is'));
  const indented = text.split('\n').map((line) => (line === '' ? ' .' : ` ${line}`));
  return replaced(replaced(template, 'COPYRIGHT', holder), 'TEXT', indented.join('\n'));
}

/** Packs the application in `app` for the architecture. Returns the path of the package in `out`. */
export function writeDeb(
  app: string,
  work: string,
  out: string,
  options: { architecture: Architecture; epoch: number; level: number },
): string {
  const { architecture, epoch, level } = options;
  const folder = path.join(work, `deb-${architecture}`);
  const version = debianVersion(manifest.version);
  const date = new Date(epoch * 1000);
  const template = (name: string): string =>
    readFileSync(path.join(root, 'deploy/debian', name), 'utf8').replaceAll('VERSION', version);
  const write = (name: string, content: string | Buffer, mode = 0o644): void => {
    mkdirSync(path.dirname(path.join(folder, name)), { recursive: true });
    writeFileSync(path.join(folder, name), content, { mode });
  };
  const compressed = (text: string): Buffer => gzipSync(text, { level: 9 });

  copy(
    app,
    path.join(folder, 'usr/lib/postrider'),
    (name) => !/^(LICENSE|CHANGELOG\.md|THIRD_PARTY_NOTICES)$/.test(name),
  );
  copy(nodeBinary(architecture, work), path.join(folder, 'usr/lib/postrider/bin/node'));
  write('usr/bin/postrider', packaged('postrider.sh'), 0o755);
  write('usr/lib/systemd/system/postrider.service', unit());
  write('etc/postrider/postrider.env', template('postrider.env'), 0o600);
  const day = date.toISOString().slice(0, 10);
  write('usr/share/man/man1/postrider.1.gz', compressed(replaced(template('postrider.1'), 'DATE', day)));
  write('usr/share/lintian/overrides/postrider', template('lintian-overrides'));
  write(`${DOC}/copyright`, copyright(template('copyright')));
  write(`${DOC}/THIRD_PARTY_NOTICES.gz`, compressed(readFileSync(path.join(app, 'THIRD_PARTY_NOTICES'), 'utf8')));
  write(`${DOC}/changelog.gz`, compressed(readFileSync(path.join(app, 'CHANGELOG.md'), 'utf8')));
  const when = date.toUTCString().replace('GMT', '+0000');
  write(`${DOC}/changelog.Debian.gz`, compressed(replaced(template('changelog'), 'DATE', when)));

  const files = readdirSync(folder, { recursive: true, withFileTypes: true })
    .filter((entry) => entry.isFile())
    .map((entry) => path.join(entry.parentPath, entry.name))
    .sort();
  const contents = files.map((file) => ({ name: path.relative(folder, file), content: readFileSync(file) }));
  const sums = contents.map(({ name, content }) => `${createHash('md5').update(content).digest('hex')}  ${name}\n`);
  const kilobytes = contents.reduce((sum, { content }) => sum + Math.ceil(content.length / 1024), 0);
  const control = replaced(template('control'), 'ARCHITECTURE', architecture);
  write('DEBIAN/control', replaced(control, 'SIZE', String(kilobytes)));
  write('DEBIAN/md5sums', sums.join(''));
  write('DEBIAN/conffiles', template('conffiles'));
  for (const name of ['postinst', 'prerm', 'postrm']) write(`DEBIAN/${name}`, template(name), 0o755);
  normalize(folder, epoch, { 'etc/postrider/postrider.env': 0o600 });

  const file = path.join(out, `postrider_${version}_${architecture}.deb`);
  const environment = { ...process.env, SOURCE_DATE_EPOCH: String(epoch) };
  run('dpkg-deb', ['--root-owner-group', '-Zgzip', `-z${level}`, '--build', folder, file], work, environment);
  return file;
}

/**
 * Types and names of files. Decides which text is a content type that may be used in a header, and which files are refused because opening
 * them runs a program. The list is the union of what large mailbox providers block on arrival (a message with such a file bounces there)
 * and what sending services refuse. It does not include archives and office documents with macros.
 *
 * Also decides which text may be a file name. A name is displayed and used in a header, and is never a path. A name that could leave a
 * directory, break out of a header, or display differently from what is opened is refused.
 */
import { hasForbiddenControl } from './header.ts';

/**
 * Extensions of programs, scripts, shortcuts, installers, and disk images, which a double click runs or mounts; lower case. Certificates,
 * databases, and other data that single products refuse (cer, crt, mat, mdb, pst, tmp) are not executable and are allowed.
 */
const REFUSED_EXTENSIONS = new Set(
  `ade adp ahk apk app appcontent-ms appimage appinstaller application applescript appref-ms appx appxbundle asp aspx au3 bas bash bat bsh cab cgi chm cjs
  class cmd com command cpl crx csh deb desktop diagcab diagcfg diagpkg dll dmg dylib elf ex ex_ exe fish fxp gadget hlp hpj hta img inf ins ipa iso isp its
  jar jnlp js jse jsp jspx ksh ko lib library-ms lnk lua mad maf mag mam maq mar mas mau mav maw mda mde mdt mdw mdz mjs msc msh
  msh1 msh1xml msh2 msh2xml mshxml msi msix msixbundle mpkg msp mst msu nsh ocx ops osd pcd phar php php3 php4 php5 phtml
  pif pkg pl plg prg ps1 ps1xml ps2 ps2xml psc1 psc2 psd1 psdm1 psm1 py pyc pyo pyw pyz pyzw rb reg rpm run scf scpt scr
  sct search-ms settingcontent-ms sh shb shs so sys tcl tcsh terminal theme url vb vbe vbp vbs vbscript vhd vhdx vps vsmacros vsw vxd wasm
  webpnp website ws wsb wsc wsf workflow wsh xbap xll xnk xpi zsh`.split(/\s+/),
);

const REFUSED_TYPES = new Set([
  'application/bat',
  'application/ecmascript',
  'application/exe',
  'application/hta',
  'application/java-archive',
  'application/java-vm',
  'application/javascript',
  'application/typescript',
  'application/vnd.appimage',
  'application/vnd.android.package-archive',
  'application/vnd.apple.installer+xml',
  'application/vnd.debian.binary-package',
  'application/vnd.microsoft.portable-executable',
  'application/vnd.ms-htmlhelp',
  'application/wasm',
  'application/x-apple-diskimage',
  'application/x-bash',
  'application/x-bat',
  'application/x-bytecode.python',
  'application/x-csh',
  'application/x-deb',
  'application/x-desktop',
  'application/x-dosexec',
  'application/x-elf',
  'application/x-exe',
  'application/x-executable',
  'application/x-httpd-php',
  'application/x-iso9660-image',
  'application/x-java-archive',
  'application/x-java-jnlp-file',
  'application/x-javascript',
  'application/x-lua',
  'application/x-mach-binary',
  'application/x-ms-application',
  'application/x-ms-dos-executable',
  'application/x-ms-installer',
  'application/x-ms-shortcut',
  'application/x-msdos-program',
  'application/x-msdownload',
  'application/x-msi',
  'application/x-object',
  'application/x-perl',
  'application/x-php',
  'application/x-pie-executable',
  'application/x-powershell',
  'application/x-python',
  'application/x-python-code',
  'application/x-redhat-package-manager',
  'application/x-rpm',
  'application/x-ruby',
  'application/x-sh',
  'application/x-shar',
  'application/x-sharedlib',
  'application/x-shellscript',
  'application/x-tcl',
  'application/x-vbs',
  'application/x-winexe',
  'text/ecmascript',
  'text/javascript',
  'text/jscript',
  'text/vbs',
  'text/vbscript',
  'text/x-bash',
  'text/x-csh',
  'text/x-javascript',
  'text/x-lua',
  'text/x-msdos-batch',
  'text/x-perl',
  'text/x-php',
  'text/x-python',
  'text/x-ruby',
  'text/x-script.python',
  'text/x-sh',
  'text/x-shellscript',
  'text/x-tcl',
]);

const TOKEN = "[A-Za-z0-9!#$%&'*+.^_`|~-]+";
const PARAMETER = ` *; *(?:${TOKEN})=(?:${TOKEN}|"(?:[^"\\\\\\x00-\\x1f\\x7f-\\uffff]|\\\\[\\x20-\\x7e])*")`;
const CONTENT_TYPE = new RegExp(
  `^[A-Za-z0-9][A-Za-z0-9!#$&^_.+-]{0,126}/[A-Za-z0-9][A-Za-z0-9!#$&^_.+-]{0,126}(?:${PARAMETER})*$`,
);
const PARAMETERS = new RegExp(PARAMETER, 'g');

/** Returns whether the text is a content type of RFC 2045 §5.1 (type/subtype of RFC 6838 §4.2, parameters), at most 255 characters. */
export function isContentType(text: string): boolean {
  return text.length <= 255 && CONTENT_TYPE.test(text);
}

/** Returns the content type without the parameter `name`, in any form of RFC 2231, for a caller that writes its own. */
export function withoutName(contentType: string): string {
  if (!/name/i.test(contentType)) return contentType;
  return contentType.replace(PARAMETERS, (parameter) => (/^ *; *name[*=]/i.test(parameter) ? '' : parameter));
}

/** Returns `type/subtype` in lower case, without parameters. */
export function baseType(contentType: string): string {
  const semicolon = contentType.indexOf(';');
  return (semicolon < 0 ? contentType : contentType.slice(0, semicolon)).trim().toLowerCase();
}

/** Invisible characters, which are removed, and characters that are read as a dot. */
const UNSEEN = /[\p{Cf}\p{Mn}\u115f\u1160\u3164]/gu;
const DOTS = /[\u3002\u06d4\u0701\u0702\ua4f8]/g;

/**
 * Returns the extensions that an operating system may use: that of the name, and on NTFS those before a colon and of the stream after it.
 * Trailing dots and spaces are ignored there, and so here; full-width letters and other dots are read as plain.
 */
function extensionsOf(name: string): string[] {
  const plain = name.normalize('NFKC').replace(UNSEEN, '').replace(DOTS, '.');
  return plain.split(':').flatMap((part) => {
    const trimmed = part.replace(/[.\s]+$/u, '');
    const dot = trimmed.lastIndexOf('.');
    return dot === -1
      ? []
      : [
          trimmed
            .slice(dot + 1)
            .trim()
            .toLowerCase(),
        ];
  });
}

/** Returns why a file may not be sent, as the rest of a sentence that starts with the file or its field; undefined if it may. */
export function refusedFileType(file: { name: string; contentType: string }): string | undefined {
  const refused = extensionsOf(file.name).find((extension) => REFUSED_EXTENSIONS.has(extension));
  if (refused !== undefined) return `is an executable or script file (.${refused})`;
  const type = baseType(file.contentType);
  return REFUSED_TYPES.has(type) ? `has an executable or script content type (${type})` : undefined;
}

const MAX_FILE_NAME_BYTES = 255;

/** Embeddings, overrides, and isolates of Unicode's bidirectional algorithm: after one, `fdp.exe` is displayed as `exe.pdf`. */
const DIRECTION_CONTROLS = /[\u202a-\u202e\u2066-\u2069]/;

/**
 * Invisible characters that no script needs within a word. Joiners, marks of right-to-left scripts, and characters of emoji are not among
 * them.
 */
const INVISIBLE =
  /[\u00ad\u115f\u1160\u180e\u200b\u2060-\u2064\u206a-\u206f\u3164\ufeff\uffa0\ufff0-\ufffb\u{e0000}-\u{e001f}]|\u034f|\u17b4|\u17b5/u;

/** Returns why the text may not be a file name, as the rest of a sentence that starts with its field; undefined if it may. */
export function fileNameIssue(name: string): string | undefined {
  if (name.trim() === '') return 'must not be empty';
  if (Buffer.byteLength(name) > MAX_FILE_NAME_BYTES) return `must be at most ${MAX_FILE_NAME_BYTES} bytes long`;
  if (name.includes('/') || name.includes('\\')) return 'must be a name without / and \\';
  if (name === '.' || name === '..') return 'must be the name of a file, not of a folder';
  if (hasForbiddenControl(name) || /[\t\u0080-\u009f]/.test(name))
    return 'has a line break or another control character';
  if (DIRECTION_CONTROLS.test(name)) return 'has a text direction control character';
  if (INVISIBLE.test(name)) return 'has an invisible character';
  if (/:\$[a-z_]+[. ]*$/i.test(name)) return 'is the name of a file stream (:$DATA); use the name of a file';
  return undefined;
}

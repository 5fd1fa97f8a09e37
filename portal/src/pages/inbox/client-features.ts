/**
 * How to find the HTML and CSS features of client-support.json in an email. The names are those of caniemail.com. Features that every email
 * client supports, and those that a browser's CSSOM cannot tell apart, are missing: hexadecimal colors become rgb(), and word-wrap becomes
 * overflow-wrap. Values that change nothing do not count, such as those that a shorthand resets.
 */

/** The declarations of one rule or style attribute, as the browser understood them. */
export interface Block {
  /** All declarations, serialized by the browser. */
  text: string;
  /** Values by property, without shorthands. Empty if it contains var() from a shorthand. */
  values: ReadonlyMap<string, string>;
}

export interface UsedElement {
  name: string;
  attributes: ReadonlyMap<string, string>;
}

export interface HtmlUsage {
  elements: readonly UsedElement[];
  blocks: readonly Block[];
  /** One per rule, serialized by the browser. */
  selectors: readonly string[];
  atRules: readonly {
    kind: 'import' | 'media' | 'supports' | 'font-face' | 'keyframes' | 'nesting';
    condition: string;
  }[];
}

/** Returns how often an email uses a feature. */
type Count = (usage: HtmlUsage) => number;

const WITHOUT_EFFECT = new Set(['none', 'auto', 'normal', 'initial', 'inherit', 'unset', 'revert']);
/** Shorthands set their other properties to these values, in browsers that do not write `initial`. */
const DEFAULTS: Readonly<Record<string, string>> = {
  'background-position-x': '0%',
  'background-repeat': 'repeat',
  'background-origin': 'padding-box',
  'background-clip': 'border-box',
  'font-stretch': '100%',
  'list-style-position': 'outside',
  'text-decoration-color': 'currentcolor',
  'text-decoration-style': 'solid',
  'transition-duration': '0s',
};

const hasEffect = (value: string): boolean => !WITHOUT_EFFECT.has(value);
const isNegative = (value: string): boolean => value.startsWith('-');
const isNot =
  (...values: readonly string[]) =>
  (value: string): boolean =>
    !values.includes(value);

/** Counts blocks with one of the properties, if its value has an effect. */
const properties =
  (names: readonly string[], counts = hasEffect): Count =>
  ({ blocks }) =>
    blocks.filter(({ values }) =>
      names.some((name) => {
        const value = values.get(name);
        return value !== undefined && value !== 'initial' && value !== DEFAULTS[name] && counts(value);
      }),
    ).length;

/** Counts blocks with a property whose name starts like this. */
const propertiesOf =
  (...starts: readonly string[]): Count =>
  ({ blocks }) =>
    blocks.filter(({ values }) => [...values.keys()].some((name) => starts.some((start) => name.startsWith(start))))
      .length;

const display = (...values: readonly string[]): Count => properties(['display'], (value) => values.includes(value));

/** Contents of strings and url() can look like anything. */
const withoutStrings = (css: string): string =>
  css.replace(/"(?:[^"\\]|\\.)*"|'(?:[^'\\]|\\.)*'/g, '""').replace(/url\([^)]*\)/g, 'url()');

/** Counts blocks with a value that matches. */
const values =
  (pattern: RegExp): Count =>
  ({ blocks }) =>
    blocks.filter(({ text }) => pattern.test(withoutStrings(text))).length;
const functions = (name: string): Count => values(new RegExp(`(?<![\\w-])(?:${name})\\(`));
const unit = (name: string): Count => values(new RegExp(`(?<![\\w#-])-?[\\d.]+${name}(?![\\w-])`));

const withoutBrackets = (selector: string): string => withoutStrings(selector).replace(/\[[^\]]*\]/g, '[]');
const selectors =
  (pattern: RegExp): Count =>
  (usage) =>
    usage.selectors.filter((one) => pattern.test(withoutBrackets(one))).length;
const pseudo = (name: string): Count => selectors(new RegExp(`(?<!:):${name}(?![\\w-])`));
/** Counts combinators outside of parentheses: :nth-child(2n + 1) has none. */
const combinator =
  (pattern: RegExp): Count =>
  (usage) =>
    usage.selectors.filter((one) => pattern.test(withoutBrackets(one).replace(/\([^()]*\)/g, '()'))).length;

const atRules =
  (kind: HtmlUsage['atRules'][number]['kind'], pattern = /(?:)/): Count =>
  (usage) =>
    usage.atRules.filter((one) => one.kind === kind && pattern.test(one.condition)).length;

const elements =
  (names: string, matches: (attributes: UsedElement['attributes']) => boolean = () => true): Count =>
  (usage) => {
    const wanted = names.split(' ');
    return usage.elements.filter(({ name, attributes }) => wanted.includes(name) && matches(attributes)).length;
  };
const input = (type: string): Count => elements('input', (given) => (given.get('type') ?? 'text') === type);
const attribute =
  (name: string): Count =>
  (usage) =>
    usage.elements.filter(({ attributes }) => attributes.has(name)).length;

/** Counts images of a type, by the extension of their path or by the type in a data: URL. */
const images = (extensions: readonly string[], type: string): Count =>
  elements('img source', (attributes) => {
    const source = (attributes.get('src') ?? attributes.get('srcset') ?? '').trim().toLowerCase();
    if (source.startsWith('data:')) return source.startsWith(`data:${type}`);
    const path = source.split(/[?#\s,]/)[0]!;
    return extensions.some((extension) => path.endsWith(`.${extension}`));
  });

const SEMANTIC = ['article', 'aside', 'details', 'figcaption', 'figure', 'footer', 'header', 'main', 'mark', 'nav'];

/** Properties that have the name of their feature. */
const OF_SAME_NAME = [
  'accent-color',
  'align-items',
  'aspect-ratio',
  'backdrop-filter',
  'background-blend-mode',
  'background-clip',
  'background-image',
  'background-origin',
  'background-size',
  'border-spacing',
  'box-shadow',
  'box-sizing',
  'caption-side',
  'clear',
  'clip-path',
  'color-scheme',
  'column-count',
  'cursor',
  'empty-cells',
  'filter',
  'float',
  'font-kerning',
  'font-size-adjust',
  'font-stretch',
  'height',
  'hyphenate-character',
  'hyphenate-limit-chars',
  'inline-size',
  'justify-content',
  'letter-spacing',
  'line-height',
  'list-style-image',
  'list-style-position',
  'mask-image',
  'max-block-size',
  'max-height',
  'max-inline-size',
  'max-width',
  'min-block-size',
  'min-height',
  'min-inline-size',
  'min-width',
  'mix-blend-mode',
  'object-fit',
  'object-position',
  'opacity',
  'orphans',
  'outline-offset',
  'resize',
  'shape-margin',
  'shape-outside',
  'tab-size',
  'table-layout',
  'text-align-last',
  'text-decoration-color',
  'text-decoration-skip-ink',
  'text-decoration-style',
  'text-decoration-thickness',
  'text-justify',
  'text-orientation',
  'text-overflow',
  'text-shadow',
  'text-underline-offset',
  'text-underline-position',
  'transform',
  'visibility',
  'widows',
  'width',
  'word-break',
  'word-spacing',
  'writing-mode',
  'z-index',
];

const PROPERTIES: Record<string, Count> = {
  ...Object.fromEntries(OF_SAME_NAME.map((name) => [`css-${name}`, properties([name])])),
  'css-animation': properties(['animation-name']),
  'css-background': ({ blocks }) => blocks.filter(({ text }) => /(?:^|;\s*)background:/.test(text)).length,
  'css-background-position': properties(['background-position-x', 'background-position']),
  'css-background-repeat': properties(['background-repeat', 'background-repeat-x']),
  'css-border-image': properties(['border-image-source']),
  'css-border-inline-block': propertiesOf('border-inline-', 'border-block-'),
  'css-border-radius': properties(['border-top-left-radius', 'border-bottom-right-radius'], isNot('0px')),
  'css-border-radius-logical': propertiesOf('border-start-', 'border-end-'),
  'css-display': properties(
    ['display'],
    isNot('none', 'block', 'inline', 'flex', 'grid', 'table', 'table-cell', 'table-row', 'list-item'),
  ),
  'css-display-flex': display('flex', 'inline-flex'),
  'css-display-grid': display('grid', 'inline-grid'),
  'css-display-none': display('none'),
  'css-flex-direction': properties(['flex-direction'], (value) => value.startsWith('column')),
  'css-flex-wrap': properties(['flex-wrap'], isNot('nowrap')),
  'css-font-size': properties(['font-size'], (value) => /(?:rem|em|%|larger|smaller)$/.test(value)),
  'css-font-weight': properties(['font-weight'], (value) => /^\d/.test(value) && value !== '400' && value !== '700'),
  'css-gap': properties(['row-gap', 'column-gap']),
  'css-grid-template': properties(['grid-template-columns', 'grid-template-rows', 'grid-template-areas']),
  'css-hyphens': properties(['hyphens'], isNot('none', 'manual')),
  'css-left-right-top-bottom': properties(['left', 'right', 'top', 'bottom']),
  'css-margin': properties(
    ['margin-top', 'margin-right', 'margin-bottom', 'margin-left'],
    (value) => isNegative(value) || value === 'auto',
  ),
  'css-margin-block-start-end': properties(['margin-block-start', 'margin-block-end']),
  'css-margin-inline-start-end': properties(['margin-inline-start', 'margin-inline-end']),
  'css-outline': properties(['outline-style']),
  'css-overflow': properties(['overflow-x', 'overflow-y'], isNot('visible')),
  'css-padding': properties(['padding-top', 'padding-right', 'padding-bottom', 'padding-left'], isNot('0px', '0')),
  'css-padding-block-start-end': properties(['padding-block-start', 'padding-block-end']),
  'css-padding-inline-start-end': properties(['padding-inline-start', 'padding-inline-end']),
  'css-position': properties(['position'], isNot('static')),
  'css-scroll-snap': propertiesOf('scroll-snap-'),
  'css-text-align': properties(['text-align'], (value) => /start|end|match-parent/.test(value)),
  'css-text-emphasis': properties(['text-emphasis-style']),
  'css-text-indent': properties(['text-indent'], isNegative),
  'css-text-transform': properties(['text-transform'], (value) => value === 'lowercase'),
  'css-text-wrap': properties(['text-wrap-style']),
  'css-transition': properties(['transition-duration']),
  'css-user-select': properties(['user-select', '-webkit-user-select'], isNot('auto')),
  'css-variables': propertiesOf('--'),
  'css-white-space': properties(['white-space', 'white-space-collapse', 'text-wrap-mode'], isNot('wrap', 'collapse')),
};

const VALUES: Record<string, Count> = {
  'css-conic-gradient': functions('(?:repeating-)?conic-gradient'),
  'css-function-clamp': functions('clamp'),
  'css-function-light-dark': functions('light-dark'),
  'css-function-max': functions('max'),
  'css-function-min': functions('min'),
  'css-intrinsic-size': values(/(?<![\w-])(?:fit|min|max)-content(?![\w-])/),
  'css-linear-gradient': functions('(?:repeating-)?linear-gradient'),
  'css-modern-color': functions('(?:ok)?(?:lch|lab)'),
  'css-radial-gradient': functions('(?:repeating-)?radial-gradient'),
  'css-unit-calc': functions('calc'),
  'css-unit-ch': unit('ch'),
  'css-unit-rem': unit('rem'),
  'css-unit-vh': unit('vh'),
  'css-unit-vmax': unit('vmax'),
  'css-unit-vmin': unit('vmin'),
  'css-unit-vw': unit('vw'),
};

const PSEUDO_CLASSES = [
  'active',
  'checked',
  'default',
  'first-child',
  'first-of-type',
  'focus-visible',
  'focus-within',
  'focus',
  'has',
  'hover',
  'lang',
  'last-child',
  'last-of-type',
  'link',
  'not',
  'nth-child',
  'nth-last-child',
  'nth-last-of-type',
  'nth-of-type',
  'only-child',
  'only-of-type',
  'target',
  'visited',
];
const PSEUDO_ELEMENTS = ['after', 'before', 'first-letter', 'first-line', 'marker', 'placeholder'];

const RULES: Record<string, Count> = {
  ...Object.fromEntries(PSEUDO_CLASSES.map((name) => [`css-pseudo-class-${name}`, pseudo(name)])),
  ...Object.fromEntries(
    PSEUDO_ELEMENTS.map((name) => [`css-pseudo-element-${name}`, selectors(new RegExp(`::${name}(?![\\w-])`))]),
  ),
  'css-selector-adjacent-sibling': combinator(/\+/),
  'css-selector-attribute': selectors(/\[/),
  'css-selector-child': combinator(/>/),
  'css-selector-general-sibling': combinator(/~/),
  'css-selector-universal': selectors(/(?:^|[\s>+~,(])\*/),
  'css-nesting': atRules('nesting'),
  'css-at-font-face': atRules('font-face'),
  'css-at-import': atRules('import'),
  'css-at-keyframes': atRules('keyframes'),
  'css-at-supports': atRules('supports'),
  'css-at-media': atRules('media'),
  'css-at-media-device-pixel-ratio': atRules('media', /device-pixel-ratio/),
  'css-at-media-hover': atRules('media', /\((?:any-)?hover/),
  'css-at-media-orientation': atRules('media', /\(orientation/),
  'css-at-media-prefers-color-scheme': atRules('media', /prefers-color-scheme/),
  'css-at-media-prefers-reduced-motion': atRules('media', /prefers-reduced-motion/),
};

const OF_SAME_ELEMENT = [
  'abbr',
  'acronym',
  'audio',
  'base',
  'bdi',
  'dialog',
  'form',
  'link',
  'marquee',
  'meter',
  'object',
  'picture',
  'progress',
  'ruby',
  'select',
  'style',
  'svg',
  'textarea',
  'video',
  'wbr',
];
const OF_SAME_ATTRIBUTE = [
  'aria-describedby',
  'aria-hidden',
  'aria-label',
  'aria-labelledby',
  'aria-live',
  'background',
  'dir',
  'hidden',
  'popover',
  'required',
  'srcset',
];

const HTML: Record<string, Count> = {
  ...Object.fromEntries(OF_SAME_ELEMENT.map((name) => [`html-${name}`, elements(name)])),
  ...Object.fromEntries(OF_SAME_ATTRIBUTE.map((name) => [`html-${name}`, attribute(name)])),
  'html-anchor-links': elements('a', (given) => /^#./.test(given.get('href') ?? '')),
  'html-button-reset': elements('button', (given) => given.get('type') === 'reset'),
  'html-button-submit': elements('button', (given) => (given.get('type') ?? 'submit') === 'submit'),
  'html-image-maps': elements('img', (given) => given.has('usemap')),
  'html-input-checkbox': input('checkbox'),
  'html-input-hidden': input('hidden'),
  'html-input-radio': input('radio'),
  'html-input-reset': input('reset'),
  'html-input-submit': input('submit'),
  'html-input-text': input('text'),
  'html-loading-attribute': attribute('loading'),
  'html-meta-color-scheme': elements('meta', (given) => given.get('name') === 'color-scheme'),
  // Tables may have one.
  'html-role': (usage) => usage.elements.filter((one) => one.name !== 'table' && one.attributes.has('role')).length,
  'html-semantics': elements([...SEMANTIC, 'section', 'summary', 'time'].join(' ')),
};

const IMAGES: Record<string, Count> = {
  'image-apng': images(['apng'], 'image/apng'),
  'image-avif': images(['avif'], 'image/avif'),
  'image-base64': elements('img', (given) => /^\s*data:/i.test(given.get('src') ?? '')),
  'image-bmp': images(['bmp'], 'image/bmp'),
  'image-heif': images(['heif', 'heic'], 'image/hei'),
  'image-ico': images(['ico'], 'image/x-icon'),
  'image-mp4': images(['mp4'], 'video/mp4'),
  'image-svg': images(['svg'], 'image/svg'),
  'image-tiff': images(['tif', 'tiff'], 'image/tiff'),
  'image-webp': images(['webp'], 'image/webp'),
};

/** By the name of the feature at caniemail.com/features/NAME. */
export const FEATURES: Readonly<Record<string, Count>> = { ...PROPERTIES, ...VALUES, ...RULES, ...HTML, ...IMAGES };

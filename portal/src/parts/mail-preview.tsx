/**
 * The HTML of a message as a recipient sees it, in an isolated frame: no scripts, no forms, no external requests. The frame's page has its
 * own Content-Security-Policy from the service (src/http/portal.ts), which also applies to the HTML. Remote images are loaded only on
 * request, by a second page whose policy allows them; links open in a new tab without access to this one.
 */
import { Button, Group, SegmentedControl, Text } from '@mantine/core';
import { useElementSize } from '@mantine/hooks';
import { useEffect, useRef, useState } from 'react';
import { basePath } from '../base-path.ts';
import { IconPhoto } from '../icons.ts';
import { preview } from '../texts/parts.ts';
import classes from './parts.module.css';

/** Elements that could make requests before a policy applies, or that change the frame. */
const UNWANTED = 'link, meta, base, iframe, frame, object, embed, portal, script, noscript';

/** Removes references in SVG, which browsers fetch before they check the policy. */
function withoutReferences(mail: Document): void {
  for (const element of mail.querySelectorAll('svg, svg *'))
    for (const { name, value } of [...element.attributes]) {
      const leadsAway = /(?:^|:)href$/.test(name) && element.localName !== 'a' && !/^\s*(?:#|data:)/i.test(value);
      if (leadsAway || /url\(\s*["']?(?!#|data:)/i.test(value)) element.removeAttribute(name);
    }
}

const REMOTE_IN_STYLE = /url\(\s*["']?(?:https?:)?\/\/[^)]*\)/gi;

/** Removes what the policy would block, to avoid errors in the console. */
function withoutRemote(mail: Document): void {
  for (const element of mail.querySelectorAll('[src], [srcset], [background], [poster]'))
    for (const name of ['src', 'srcset', 'background', 'poster'])
      if (!/^\s*data:/i.test(element.getAttribute(name) ?? 'data:')) element.removeAttribute(name);
  for (const element of mail.querySelectorAll('[style]'))
    element.setAttribute('style', element.getAttribute('style')!.replace(REMOTE_IN_STYLE, 'none'));
  for (const style of mail.querySelectorAll('style'))
    style.textContent = style.textContent.replace(REMOTE_IN_STYLE, 'none').replace(/@import[^;]*;?/gi, '');
}

function show(frame: HTMLIFrameElement, html: string, withImages: boolean): void {
  const document = frame.contentDocument;
  if (document === null) return;
  const mail = document.implementation.createHTMLDocument('');
  mail.documentElement.innerHTML = html;
  for (const element of mail.querySelectorAll(UNWANTED)) element.remove();
  withoutReferences(mail);
  if (!withImages) withoutRemote(mail);
  for (const element of mail.querySelectorAll('a[href], area[href], form')) {
    element.setAttribute('target', '_blank');
    element.setAttribute('rel', 'noopener noreferrer');
  }
  const top = document.scrollingElement?.scrollTop ?? 0;
  document.documentElement.replaceWith(document.adoptNode(mail.documentElement));
  document.scrollingElement?.scrollTo({ top });
}

/** An email on a desktop has at least this width, and is scaled down if there is less room: most are 600 px wide. */
const DESKTOP_WIDTH = 624;
const PHONE_WIDTH = 376;
/** The largest window of a phone, where the email is first shown as on a phone. */
const PHONE_MOST = 640;
const BORDERS = 2;
const LEAST_HEIGHT = 120;
const LARGEST_HEIGHT = 20_000;
/** A message whose height depends on that of the frame would grow without end: beyond this height, the frame grows a few times only. */
const [LONG_HEIGHT, GROWTHS_AT_MOST] = [4_000, 10];

function heightOf({ documentElement: root }: Document): number {
  // The root is as high as the content; what overflows it counts only if the frame is too small for it.
  const overflow = root.scrollHeight > root.clientHeight ? root.scrollHeight : 0;
  return Math.min(LARGEST_HEIGHT, Math.max(LEAST_HEIGHT, Math.ceil(root.offsetHeight), overflow));
}

const hasRemoteImages = (html: string): boolean =>
  /(?:src|background|srcset)\s*=\s*["']?\s*(?:https?:)?\/\/|url\(\s*["']?(?:https?:)?\/\//i.test(html);

const widthOf = (device: 'desktop' | 'phone', room: number): number =>
  device === 'phone' ? Math.min(PHONE_WIDTH, room) : Math.max(DESKTOP_WIDTH, room);

export function MailPreview({ html, height = 480 }: { html: string; height?: number }) {
  const [withImages, setWithImages] = useState(false);
  const [device, setDevice] = useState<'desktop' | 'phone'>(() => (innerWidth <= PHONE_MOST ? 'phone' : 'desktop'));
  const { ref: room, width: roomWidth } = useElementSize();
  const letImagesIn = (): void => {
    isLoaded.current = false;
    setWithImages(true);
  };
  const frame = useRef<HTMLIFrameElement>(null);
  const [mailHeight, setMailHeight] = useState(height);
  // Until its page is loaded, the frame has another policy.
  const isLoaded = useRef(false);
  const sizes = useRef<ResizeObserver>(undefined);
  const growths = useRef(0);
  const fit = (mail: Document): void => {
    const needed = heightOf(mail) + BORDERS;
    if (needed > LONG_HEIGHT) growths.current += 1;
    if (growths.current <= GROWTHS_AT_MOST) setMailHeight(needed);
  };
  const showIn = (element: HTMLIFrameElement): void => {
    show(element, html, withImages);
    const mail = element.contentDocument;
    if (mail === null) return;
    sizes.current?.disconnect();
    growths.current = 0;
    // In the next frame, because the change of the height changes what is observed.
    sizes.current = new ResizeObserver(() => requestAnimationFrame(() => fit(mail)));
    sizes.current.observe(mail.documentElement);
  };
  useEffect(() => {
    if (isLoaded.current && frame.current !== null) showIn(frame.current);
  }, [html, withImages]);
  useEffect(() => () => sizes.current?.disconnect(), []);
  const width = roomWidth === 0 ? undefined : widthOf(device, roomWidth);
  const scale = width === undefined ? 1 : Math.min(1, roomWidth / width);
  return (
    <div>
      <Group justify="space-between" mb="xs">
        <SegmentedControl
          value={device}
          aria-label={preview.width}
          onChange={(value) => setDevice(value as 'desktop' | 'phone')}
          data={[
            { value: 'desktop', label: preview.desktop },
            { value: 'phone', label: preview.phone },
          ]}
        />
        {!withImages && hasRemoteImages(html) && (
          <Group gap="xs">
            <Text size="xs" c="dimmed">
              {preview.imagesHint}
            </Text>
            <Button variant="default" leftSection={<IconPhoto size={14} />} onClick={letImagesIn}>
              {preview.images}
            </Button>
          </Group>
        )}
      </Group>
      <div className={classes.mat}>
        <div ref={room} className={classes.room} style={{ height: mailHeight * scale }}>
          <iframe
            key={`${withImages}`}
            ref={frame}
            title={preview.title}
            className={classes.frame}
            style={{ height: mailHeight, width, transform: scale === 1 ? undefined : `scale(${scale})` }}
            sandbox="allow-same-origin allow-popups allow-popups-to-escape-sandbox"
            referrerPolicy="no-referrer"
            src={`${basePath}${withImages ? '/app-frame-with-images' : '/app-frame'}`}
            onLoad={({ currentTarget }) => {
              isLoaded.current = true;
              showIn(currentTarget);
            }}
          />
        </div>
      </div>
    </div>
  );
}

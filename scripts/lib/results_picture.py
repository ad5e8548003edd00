"""A picture of ratios: how many times as long somebody else takes, as bars with the span of a group's rows."""
from xml.sax.saxutils import escape

WIDTH, LEFT, RIGHT, TOP, STEP, BAR = 900, 330, 150, 46, 22, 12
MOST = 2.75 # ratios beyond are drawn up to here and say their number
FASTER, SLOWER, INK, FAINT = "#3b7a57", "#b5651d", "#123", "#456"


def place(ratio):
    return LEFT + (WIDTH - LEFT - RIGHT) * min(ratio, MOST) / MOST


def text(x, y, words, anchor="start", fill=INK, size=12):
    return '  <text x="%.0f" y="%.0f" text-anchor="%s" fill="%s" font-size="%d">%s</text>' % (x, y, anchor, fill, size, escape(words))


def bar(y, one):
    """One of {name, against, ratios}: the bar is the geometric mean, the line from the least to the greatest."""
    mean = 1.0
    for ratio in one["ratios"]:
        mean *= ratio ** (1.0 / len(one["ratios"]))
    low, high = min(one["ratios"]), max(one["ratios"])
    colour = FASTER if mean >= 1 else SLOWER
    count = " (%d)" % len(one["ratios"]) if len(one["ratios"]) > 1 else ""
    out = [text(LEFT - 8, y + BAR - 2, one["name"] + count, "end"),
           '  <rect x="%.1f" y="%d" width="%.1f" height="%d" fill="%s"/>' % (place(0), y, place(mean) - place(0), BAR, colour)]
    if len(one["ratios"]) > 1:
        middle = y + BAR / 2
        out.append('  <line x1="%.1f" y1="%.1f" x2="%.1f" y2="%.1f" stroke="%s"/>' % (place(low), middle, place(high), middle, INK))
    out.append(text(place(max(mean, high)) + 6, y + BAR - 2, "%.2fx %s" % (mean, one["against"]), fill=FAINT, size=11))
    return out


def svg(title, bars):
    bottom = TOP + STEP * len(bars)
    out = ['<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %d %d" font-family="sans-serif">' % (WIDTH, bottom + 40),
           '  <rect width="%d" height="%d" fill="#fff"/>' % (WIDTH, bottom + 40), text(LEFT, 20, title, size=14)]
    for tick in (0.5, 1.0, 1.5, 2.0, 2.5):
        out.append('  <line x1="%.1f" y1="%d" x2="%.1f" y2="%d" stroke="%s"%s/>' %
                   (place(tick), TOP - 8, place(tick), bottom, INK if tick == 1 else "#ccd", "" if tick == 1 else ' stroke-dasharray="2 3"'))
        out.append(text(place(tick), bottom + 14, "%gx" % tick, "middle", FAINT, 11))
    for at, one in enumerate(bars):
        out += bar(TOP + STEP * at, one)
    out.append(text(LEFT, bottom + 32, "geometric means of the rows in brackets, thin lines from the least to the greatest; beyond 1x ours is faster", fill=FAINT, size=11))
    return "\n".join(out + ["</svg>"])

//! Geometries, in the format in which both servers store and take them: the SRID, then well-known binary with x before
//! y. So no server's order of axes matters.

use flushlab_rows::Bits;
use serde::Deserialize;

use crate::draw::Draw;

/// Degrees, or units of the plane, from the place to the other corners of a shape.
const SIDE: f64 = 0.01;

/// Digits behind the point of a coordinate.
const PLACES: f64 = 1e6;

#[derive(Debug, Clone, Copy, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Shape {
    Point,
    LineString,
    Polygon,
    MultiPoint,
    MultiLineString,
    MultiPolygon,
    GeometryCollection,
}

/// A shape around a place between bounds; of what has several members, one.
#[derive(Debug)]
pub(crate) struct Geometry {
    pub shape: Shape,
    pub x: (f64, f64),
    pub y: (f64, f64),
    pub srid: u32,
}

impl Geometry {
    fn place(&self, draw: &mut Draw) -> (f64, f64) {
        let mut coordinate = |(low, high): (f64, f64)| {
            // So that the other corners are between the bounds too.
            let high = (high - SIDE).max(low);
            ((low + draw.unit() * (high - low)) * PLACES).round() / PLACES
        };
        (coordinate(self.x), coordinate(self.y))
    }

    /// Appends the bytes.
    pub fn put(&self, draw: &mut Draw, out: &mut Vec<u8>) {
        let place = self.place(draw);
        out.extend_from_slice(&self.srid.to_le_bytes());
        put_shape(out, self.shape, place);
    }
}

/// The corners of a triangle, closed.
fn ring((x, y): (f64, f64)) -> [(f64, f64); 4] {
    [(x, y), (x + SIDE, y), (x + SIDE, y + SIDE), (x, y)]
}

/// Well-known binary (OGC 06-103r4, 8.2), little-endian.
fn put_shape(out: &mut Vec<u8>, shape: Shape, place: (f64, f64)) {
    let code: u32 = match shape {
        Shape::Point => 1,
        Shape::LineString => 2,
        Shape::Polygon => 3,
        Shape::MultiPoint => 4,
        Shape::MultiLineString => 5,
        Shape::MultiPolygon => 6,
        Shape::GeometryCollection => 7,
    };
    out.push(1);
    out.extend_from_slice(&code.to_le_bytes());
    match shape {
        Shape::Point => put_corners(out, place, 1),
        Shape::LineString => {
            out.extend_from_slice(&2u32.to_le_bytes());
            put_corners(out, place, 2);
        }
        Shape::Polygon => {
            out.extend_from_slice(&1u32.to_le_bytes());
            out.extend_from_slice(&4u32.to_le_bytes());
            put_corners(out, place, 4);
        }
        several => {
            out.extend_from_slice(&1u32.to_le_bytes());
            let member = match several {
                Shape::MultiLineString => Shape::LineString,
                Shape::MultiPolygon => Shape::Polygon,
                _ => Shape::Point,
            };
            put_shape(out, member, place);
        }
    }
}

fn put_corners(out: &mut Vec<u8>, place: (f64, f64), count: usize) {
    for (x, y) in ring(place).into_iter().take(count) {
        out.extend_from_slice(&x.to_le_bytes());
        out.extend_from_slice(&y.to_le_bytes());
    }
}
